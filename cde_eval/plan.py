"""What is to be evaluated: which models read what, on which tasks, and how often it is drawn.

models, tasks, policies, draws ──▶ Evaluation ──▶ run.evaluate
├─▶ draws_of: what can give another score for a model
└─▶ foreign_documents: what is read from elsewhere
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cde_core.errors import ConfigError, TaskError
from cde_eval.contexts import ContextPolicy, file_documents
from cde_eval.encoders import Encoder, LoadOptions
from cde_eval.encoders.kept import load_kept
from cde_eval.protocols import PAPER, Protocol
from cde_eval.task_contexts import Foreign
from cde_eval.tasks.builtin import documents_outside
from cde_eval.tasks.catalogue import TaskSource, find_tasks
from cde_eval.tasks.lending import lent_documents
from cde_eval.tasks.loading import load_task

NO_MODEL = "--model names no model; `cde-eval encoders` lists what can be named."


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What to evaluate, and how.

    Raises:
        ConfigError: If there is no model, task or draw.
    """

    models: tuple[str, ...]
    tasks: tuple[TaskSource, ...]
    policies: tuple[ContextPolicy, ...]
    protocol: Protocol = PAPER
    draws: int = 1
    """Samples that each policy draws; a score is their mean, with its spread."""

    options: LoadOptions = field(default_factory=LoadOptions)
    rerank_as_search: bool = False
    task_lookup: tuple[TaskSource, ...] = ()
    """Tasks that a policy `task:NAME` may name."""

    loaded: Mapping[str, Encoder] = field(default_factory=dict)
    """Models that are in memory already, by the names that `models` has for them."""

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError(NO_MODEL)
        if not self.tasks:
            raise ConfigError("There is no task to score; name some with --tasks or --data.")
        if self.draws < 1:
            raise ConfigError(f"--draws is {self.draws}; draw at least one sample.")

    def encoder(self, model: str) -> Encoder:
        """The encoder that a name in `models` stands for.

        Raises:
            ModelError: If it cannot be loaded.
        """
        return self.loaded[model] if model in self.loaded else load_kept(model, self.options)


@dataclass(frozen=True, slots=True)
class Failure:
    """An evaluation that was not done, and why."""

    model: str
    task: str
    reason: str
    expected: bool = False
    """Whether it was known beforehand: the model does not do this type of task."""


def draws_of(
    encoder: Encoder, policies: Sequence[ContextPolicy], draws: int
) -> Iterator[tuple[ContextPolicy, int, int]]:
    """Every (policy, draw, draws) that can give another score for this encoder."""
    if encoder.context_size == 0:
        yield ContextPolicy("none"), 0, 1
        return
    for policy in policies:
        drawn = policy.kind not in ("none", "candidates")
        by_chance = drawn and (policy.size or encoder.context_size) is not None
        several = draws if by_chance else 1
        for draw in range(several):
            yield policy, draw, several


def tasks_that_lend(
    policies: Sequence[ContextPolicy], data: Sequence[Path] = ()
) -> tuple[TaskSource, ...]:
    """The tasks whose documents are read by policies `task:NAME`, for an `Evaluation`'s lookup.

    Args:
        policies: Of any kind.
        data: Folders in which the tasks are looked for first.

    Raises:
        TaskError: If there is no such task.
    """
    names = [policy.argument for policy in policies if policy.kind == "task"]
    return tuple(find_tasks(names, data=data)) if names else ()


def foreign_documents(policy: ContextPolicy, task_name: str, plan: Evaluation) -> Foreign | None:
    """The documents of a policy that reads elsewhere than in the task; None of one that does not.

    Raises:
        TaskError: If the policy names a task that is not known.
    """
    if policy.kind == "random":
        documents, revision = documents_outside(task_name)
        return Foreign(documents, f"random:built-in documentation {revision}")
    if policy.kind == "file":
        return Foreign(file_documents(Path(policy.argument)), f"file:{Path(policy.argument).name}")
    if policy.kind == "task":
        source = next((s for s in plan.task_lookup if s.name == policy.argument), None)
        if source is None:
            raise TaskError(f"The context {policy.source!r} names a task that is not known.")
        return _task_documents(source, plan.protocol)
    return None


@lru_cache(maxsize=16)
def _task_documents(source: TaskSource, protocol: Protocol) -> Foreign:
    task = source.make()
    load_task(task, source)
    split = task.eval_splits[0]
    subset = task.hf_subsets[0]
    documents = lent_documents(task, split, subset, protocol)
    return Foreign(documents, f"task:{source.name}/{split} {task.metadata.revision}")
