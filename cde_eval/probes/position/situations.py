"""The contexts that a probe of positions puts an encoder into.

    encoder, policies, draws ──▶ Situation(policy, draw) ──read──▶ context for `encode`

Documents of a corpus context are the unmoved ones: the context is what the model knew before, and
one passage moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cde_core.errors import ContextError
from cde_core.text import Purpose
from cde_eval.contexts import ContextPolicy, draw_sample, file_documents
from cde_eval.encoders.protocol import Encoder
from cde_eval.plan import draws_of
from cde_eval.probes.position.passages import Passages
from cde_eval.protocols import PAPER
from cde_eval.task_contexts import Foreign
from cde_eval.tasks.builtin import documents_outside, retrieval_name
from cde_eval.vectors import RowsOfVectors, UnitRows, Vectors, unit_length


@dataclass(frozen=True, slots=True)
class Situation:
    """Whose documents are read, and which draw of them."""

    policy: ContextPolicy
    draw: int = 0

    @property
    def cell(self) -> dict[str, Any]:
        """Columns that tell situations apart in a table."""
        return {"context": self.policy.source, "draw": self.draw}


def situations(
    encoder: Encoder, policies: Sequence[ContextPolicy], draws: int = 1
) -> Iterator[Situation]:
    """Every context that can make a difference; one without documents for context-free encoders."""
    for policy, draw, _ in draws_of(encoder, policies, draws):
        yield Situation(policy, draw)


def read_situation(encoder: Encoder, situation: Situation, data: Passages) -> Any:
    """What the encoder reads in a situation; None where it reads nothing.

    Raises:
        ContextError: If the policy is not one that documents with passages have, or draws nothing.
    """
    policy = situation.policy
    if encoder.context_size == 0 or policy.kind == "none":
        return None
    pool, source = _pool(policy, data)
    sample = draw_sample(
        pool,
        policy.size or encoder.context_size,
        source=source,
        key=data.name,
        seed=policy.seed + situation.draw,
        protocol=PAPER,
    )
    return encoder.read_context(sample.documents, purpose=document_of(data))


def pools_elsewhere(policies: Sequence[ContextPolicy], data: Passages) -> dict[str, str]:
    """A short hash of what each policy reads that reads elsewhere than in the data."""
    return {
        policy.source: Foreign(*_pool(policy, data)).digest()
        for policy in policies
        if policy.kind in ("random", "file")
    }


def document_of(data: Passages) -> Purpose:
    """The purpose of its documents."""
    return Purpose("Retrieval", "document", data.name)


def query_of(data: Passages) -> Purpose:
    """The purpose of its queries."""
    return Purpose("Retrieval", "query", data.name)


def as_compared(encoder: Encoder, vectors: Vectors) -> Vectors:
    """Vectors scaled so that their inner product is how the encoder compares."""
    return unit_length(vectors) if _scaled(encoder) else vectors


def rows_as_compared(encoder: Encoder, vectors: RowsOfVectors) -> RowsOfVectors:
    """The same for a corpus that need not be in memory."""
    return UnitRows(vectors) if _scaled(encoder) else vectors


def _scaled(encoder: Encoder) -> bool:
    return encoder.similarity == "cosine" or encoder.context_size != 0


def _pool(policy: ContextPolicy, data: Passages) -> tuple[Sequence[str], str]:
    if policy.kind == "corpus":
        return data.documents, f"corpus:{data.name}"
    if policy.kind == "random":
        package = data.name.partition(",")[0].partition(":")[2]
        documents, revision = documents_outside(retrieval_name(package))
        return documents, f"random:built-in documentation {revision}"
    if policy.kind == "file":
        return file_documents(Path(policy.argument)), policy.source
    raise ContextError(
        f"The context {policy.source!r} is not one for documents with passages; give corpus, "
        "random, none or file:PATH."
    )
