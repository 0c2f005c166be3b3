"""The context of each task that is evaluated: drawn and read once, used for both of its sides.

    task, split, subset ──▶ pool it lends (or foreign documents) ──▶ sample ──▶ what was read

mteb hands an encoder a task's name and never its data. Therefore task objects are bound here by
name, before they are evaluated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mteb.abstasks import AbsTask
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from mteb.abstasks.task_metadata import TaskMetadata

from cde_core.errors import ContextError
from cde_core.text import Purpose
from cde_eval.contexts import ContextPolicy, Sample, draw_sample
from cde_eval.encoders.protocol import Encoder
from cde_eval.protocols import Protocol
from cde_eval.tasks.lending import lending_split, lending_subset, lent_documents

Place = tuple[str, str, str]
"""Task, split and subset."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Documents from outside the evaluated task: what `random`, `task:` and `file:` read."""

    documents: Sequence[str]
    source: str

    def digest(self) -> str:
        """Short hash of the documents: results of changed documents are other results."""
        text = "\0".join(self.documents).encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()[:8]


class TaskContexts:
    """Contexts of one encoder under one policy, one draw and one protocol.

    Args:
        encoder: Reads the documents.
        policy: Whose documents are read, and how many.
        protocol: How tasks lend documents.
        seed: Seed of this draw.
        foreign: The documents of a policy that reads elsewhere than in the task itself.
    """

    def __init__(
        self,
        encoder: Encoder,
        policy: ContextPolicy,
        protocol: Protocol,
        seed: int,
        foreign: Foreign | None,
    ) -> None:
        self._encoder = encoder
        self._policy = policy
        self._protocol = protocol
        self._seed = seed
        self._foreign = foreign
        self._tasks: dict[str, AbsTask] = {}
        self._read: tuple[Place, Any] | None = None
        self._records: dict[Place, dict[str, Any]] = {}

    @property
    def reads(self) -> bool:
        """Whether any documents are read at all."""
        return self._encoder.context_size != 0 and self._policy.kind != "none"

    @property
    def differ_by_query(self) -> bool:
        """Whether each query has a context of its own, of its candidates."""
        return self.reads and self._policy.kind == "candidates"

    @property
    def size(self) -> int | None:
        """Documents that each context holds: 0 where none are read, None for all there are."""
        return (self._policy.size or self._encoder.context_size) if self.reads else 0

    def choices(self) -> dict[str, str]:
        """Everything about the contexts that changes scores."""
        if self._encoder.context_size == 0:
            return {}
        chosen = {"context": self._policy.source, "protocol": self._protocol.name}
        if self.reads:
            chosen["size"] = "all" if self.size is None else str(self.size)
        if self.reads and self.size is not None and not self.differ_by_query:  # else not by chance
            chosen["seed"] = str(self._seed)
        if self._foreign is not None:
            chosen["documents"] = self._foreign.digest()
        return chosen

    def records(self) -> dict[str, dict[str, Any]]:
        """For "split/subset" (and task, where there are several), the context that was read."""
        several = len({task for task, _, _ in self._records}) > 1
        return {
            "/".join(place if several else place[1:]): record
            for place, record in self._records.items()
        }

    def bind(self, tasks: Iterable[AbsTask]) -> None:
        """Let these tasks lend their documents."""
        for task in tasks:
            if isinstance(task, AbsTaskAggregate):
                self.bind(task.metadata.tasks)
            else:
                self._tasks[task.metadata.name] = task

    def of(
        self,
        metadata: TaskMetadata,
        split: str,
        subset: str,
        documents: Purpose,
        *,
        corpus: Sequence[str] | None = None,
    ) -> Any:
        """What the encoder read for a task; None without context.

        Args:
            metadata: The task.
            split: Split whose texts are being embedded.
            subset: Their subset.
            documents: Purpose of the task's documents.
            corpus: The corpus, for a search task that is not bound.

        Raises:
            ContextError: If the task has nothing to lend.
        """
        if not self.reads:
            return None
        if self.differ_by_query:
            raise ContextError(
                f"{metadata.name} has no candidates of each query to read; choose another context, "
                "or a search task with `cde-eval beir-small`."
            )
        task = self._tasks.get(metadata.name)
        if task is not None:
            split = lending_split(task, split, self._protocol)
            subset = lending_subset(task, subset)
        place = (metadata.name, split, subset)
        if self._read is None or self._read[0] != place:
            sample = self._draw(place, task, corpus)
            purpose = self._protocol.context_purpose(documents)
            self._read = place, self._encoder.read_context(sample.documents, purpose=purpose)
            prefix_of = {"prefix_of": f"{purpose.task_type}/{purpose.role}"}
            self._records[place] = sample.record() | prefix_of
        return self._read[1]

    def of_each_query(
        self, metadata: TaskMetadata, split: str, subset: str, documents: Purpose
    ) -> Purpose:
        """The purpose that each query's candidates are read with; notes it for the record."""
        purpose = self._protocol.context_purpose(documents)
        self._records[metadata.name, split, subset] = {
            "source": "candidates of each query, the best first",
            "documents": self.size,
            "prefix_of": f"{purpose.task_type}/{purpose.role}",
        }
        return purpose

    def _draw(self, place: Place, task: AbsTask | None, corpus: Sequence[str] | None) -> Sample:
        name, split, subset = place
        source = f"corpus:{name}/{split}" + ("" if subset == "default" else f"/{subset}")
        pool = corpus
        if self._foreign is not None:
            pool, source = self._foreign.documents, self._foreign.source
        elif task is not None:
            pool = lent_documents(task, split, subset, self._protocol)
        if pool is None:
            raise ContextError(
                f"{name} lends no context because it is not bound to the encoder; call "
                "MtebEncoder.bind([task]) before mteb.evaluate."
            )
        return draw_sample(
            pool,
            self.size,
            source=source,
            key="\0".join(place),
            seed=self._seed,
            protocol=self._protocol,
        )
