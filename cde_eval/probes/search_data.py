"""The data of a search task as probes use it, and the contexts that it lends.

    TaskSource ──▶ SearchData: documents, queries, judgements
    plan       ──▶ lent: every policy and draw, with what the encoder reads under it
               ──▶ about: what decides a table on one model and one task

A task of several subsets or splits shows its first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mteb.abstasks import AbsTask, AbsTaskRetrieval

from cde_core.errors import ConfigError, ModelError, TaskError
from cde_core.text import Purpose, Role
from cde_eval.candidates import places
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import LoadOptions
from cde_eval.encoders.protocol import Encoder, Ranker
from cde_eval.run import Evaluation, draws_of, foreign_documents
from cde_eval.task_contexts import TaskContexts
from cde_eval.tasks.catalogue import TaskSource, find_tasks
from cde_eval.tasks.corpus_texts import corpus_texts
from cde_eval.tasks.loading import load_task
from cde_eval.vectors import Rows

DEFAULT_TASK = "DocsNetworkX"
"""Small, built in, and of a package that the shipped recipes do not train on."""

OWN = "own"
"""What stands for the pool of documents that a task lends itself."""


def probe_plan(
    models: Sequence[str],
    *,
    tasks: Sequence[str],
    data: Sequence[Path],
    context: Sequence[str],
    size: int | None,
    draws: int,
    seed: int,
    options: LoadOptions,
) -> Evaluation:
    """What a command asks a probe to look at; arguments as in `cde-eval mteb`.

    Raises:
        ConfigError: If there is no model, or no draw.
        TaskError: If a task is not known.
    """
    if not models:
        raise ConfigError("--model names no model; `cde-eval encoders` lists what can be named.")
    if draws < 1:
        raise ConfigError(f"--draws is {draws}; draw at least one sample.")
    policies = tuple(ContextPolicy(source, size, seed) for source in context)
    lent = [policy.argument for policy in policies if policy.kind == "task"]
    named = tasks or (() if data else (DEFAULT_TASK,))
    return Evaluation(
        models=tuple(models),
        tasks=tuple(find_tasks(named, types=() if named else ("Retrieval",), data=data)),
        policies=policies,
        draws=draws,
        options=options,
        task_lookup=tuple(find_tasks(lent, data=data)) if lent else (),
    )


@dataclass(frozen=True, slots=True)
class SearchData:
    """One subset and split of a search task."""

    task: AbsTaskRetrieval
    subset: str
    split: str
    document_ids: Sequence[str]
    documents: Sequence[str]
    query_ids: Sequence[str]
    queries: Sequence[str]
    judged: dict[str, dict[str, int]]
    """For each query with a relevant document, the grades of documents."""

    def purpose(self, role: Role) -> Purpose:
        """What the texts of one side are for."""
        return Purpose(str(self.task.metadata.type), role, self.task.metadata.name)

    def positive_pairs(self) -> tuple[Rows, Rows]:
        """Rows of queries, and rows of documents that are relevant to them."""
        query_rows = {query: row for row, query in enumerate(self.query_ids)}
        document_rows = {document: row for row, document in enumerate(self.document_ids)}
        pairs = [
            (query_rows[query], document_rows[document])
            for query, grades in self.judged.items()
            for document, grade in grades.items()
            if grade > 0 and document in document_rows
        ]
        left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return left, right


def search_data(source: TaskSource) -> SearchData:
    """Load the data of a search task.

    Raises:
        TaskError: If it is no search task, or its data cannot be loaded.
    """
    task = source.make()
    if not isinstance(task, AbsTaskRetrieval) or str(task.metadata.type) != "Retrieval":
        raise TaskError(
            f"{source.name} is a {task.metadata.type} task; this probe needs the queries and the "
            "corpus of a search task, such as DocsNetworkX or a BEIR folder."
        )
    load_task(task, source)
    task.convert_v1_dataset_format_to_v2(num_proc=None)
    subset, split = next(places(task))
    data = task.dataset[subset][split]
    judged = {
        query: {document: int(grade) for document, grade in grades.items()}
        for query, grades in data["relevant_docs"].items()
        if any(grade > 0 for grade in grades.values())
    }
    found = SearchData(
        task=task,
        subset=subset,
        split=split,
        document_ids=list(data["corpus"]["id"]),
        documents=corpus_texts(data["corpus"]),
        query_ids=list(data["queries"]["id"]),
        queries=list(data["queries"]["text"]),
        judged=judged,
    )
    if len(found.documents) < 2 or not judged:
        raise TaskError(f"{source.name} has fewer than two documents, or no judged query.")
    return found


class Lent(NamedTuple):
    """What an encoder may read before it looks at a task: a policy and a draw."""

    context: str
    """The policy."""

    draw: int

    pool: str
    """Whose documents: the task's own, or others by their hash."""

    read: Callable[[SearchData], Any]
    """What the encoder makes of them."""


def lent(plan: Evaluation, encoder: Encoder, source: TaskSource) -> Iterator[Lent]:
    """Every policy and draw that can give other vectors."""
    for policy, draw, _ in draws_of(encoder, plan):
        foreign = foreign_documents(policy, source.name, plan)
        contexts = TaskContexts(encoder, policy, plan.protocol, policy.seed + draw, foreign)

        def read(data: SearchData, contexts: TaskContexts = contexts) -> Any:
            bound: list[AbsTask] = [data.task]
            contexts.bind(bound)
            documents = data.purpose("document")
            return contexts.of(data.task.metadata, data.split, data.subset, documents)

        pool = OWN if foreign is None else f"others-{foreign.digest()}"
        yield Lent(policy.source, draw, pool, read)


def about(
    plan: Evaluation, model: str, encoder: Encoder, source: TaskSource, sizes: Any
) -> dict[str, Any]:
    """Everything that decides the rows of a probe on one model and one task.

    Args:
        plan: Its policies' sizes and seeds; the policies themselves are cells of the table.
        model: As it was asked for.
        encoder: What it names.
        source: The task.
        sizes: A dataclass of the probe's own parameters.
    """
    policy = plan.policies[0]
    contextual = encoder.context_size != 0
    documents = policy.size or encoder.context_size
    return {
        "model": model,
        "model_name": encoder.name,
        "revision": encoder.revision,
        "settings": json.dumps(encoder.settings, sort_keys=True),
        "task": source.name,
        "task_revision": source.make().metadata.revision,
        "data_hash": source.data_hash(),
        "protocol": plan.protocol.name,
        "context_size": ("all" if documents is None else documents) if contextual else 0,
        "context_seed": policy.seed if contextual else 0,
        **asdict(sizes),
    }


def require_vectors(model: str, encoder: Encoder) -> None:
    """Refuse an encoder that ranks by itself.

    Raises:
        ModelError: If it does.
    """
    if isinstance(encoder, Ranker):
        raise ModelError(
            f"{model} ranks documents and has no vectors to look at; leave it out, or choose "
            "another encoder."
        )
