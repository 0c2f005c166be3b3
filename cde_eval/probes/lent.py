"""What models may read before a probe looks at their vectors on search tasks.

    plan ──look_at_each──▶ a model and a task ──▶ lent: every policy and draw, and what is read
                                              ──▶ about: what decides the rows of a table

A probe of vectors goes through all models on all tasks, and on each through all that it may read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import pandas as pd
from mteb.abstasks import AbsTask

from cde_core.errors import CdeError, ModelError
from cde_eval.encoders.protocol import Encoder, Ranker
from cde_eval.plan import Evaluation, Failure, draws_of, foreign_documents
from cde_eval.task_contexts import TaskContexts
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.search_data import SearchData

DEFAULT_TASK = "DocsNetworkX"
"""Small, built in, and of a package that the shipped recipes do not train on."""

OWN = "own"
"""What stands for the pool of documents that a task lends itself."""


def look_at_each(
    plan: Evaluation, look: Callable[[str, Encoder, TaskSource], Iterable[pd.DataFrame | Failure]]
) -> Iterator[pd.DataFrame | Failure]:
    """Look at each model on each task; what cannot be looked at keeps no other from it.

    Args:
        plan: Models and search tasks.
        look: Given a model as it was asked for, what it names, and a task.

    Yields:
        What `look` gives, and what could not be looked at and why.

    Raises:
        ModelError: If a model cannot be loaded.
    """
    encoders = {model: plan.encoder(model) for model in plan.models}
    for source in plan.tasks:
        for model, encoder in encoders.items():
            try:
                _require_vectors(model, encoder)
                yield from look(model, encoder, source)
            except CdeError as error:
                yield Failure(model, source.name, str(error))


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
    for policy, draw, _ in draws_of(encoder, plan.policies, plan.draws):
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


def _require_vectors(model: str, encoder: Encoder) -> None:
    if isinstance(encoder, Ranker):
        raise ModelError(
            f"{model} ranks documents and has no vectors to look at; leave it out, or choose "
            "another encoder."
        )
