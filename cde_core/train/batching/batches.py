"""One batch: which pairs, which hard negatives, which documents are read as context.

    packing (n, B) ──▶ plan_batch(seed, epoch, number) ──▶ BatchPlan ──▶ texts_of ──▶ BatchTexts
                                                             └──▶ judged_of ──▶ Judged

A plan is numbers alone, and follows from the seed, the epoch and the batch's number, so a resumed
run draws what it would have drawn, and every process knows the whole of a batch of which it
computes a share. Documents are all answers, then every pair's hard negatives in turn.

The context is drawn from the batch's own documents, negatives included, once for queries and once
for documents: batches are neighbours, so a batch is a corpus in small.

Source: Morris and Rush (2024), sections 4.2 and 5, https://arxiv.org/abs/2410.02525; separate draws
as in the authors' published trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from cde_core.text import Purpose, prefix_for
from cde_core.train.data.pairs import Pairs
from cde_core.train.objectives.columns import Columns
from cde_core.train.objectives.objective import Judged

Numbers = NDArray[np.int64]

PREFIXES = tuple(prefix_for(Purpose("Retrieval", role)) for role in ("query", "document"))
"""What queries and documents carry where nothing else is said."""


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """What one side of a batch reads first."""

    documents: Numbers
    """Documents of the batch (J,), each the number of a column."""

    dropped: NDArray[np.bool_]
    """Vectors (J·T,) that the null vector replaces."""


@dataclass(frozen=True)
class BatchPlan:
    """A batch as numbers."""

    step: int
    """Of the whole run, from 0."""

    rows: Numbers
    """Its pairs (B,)."""

    negatives: Numbers
    """Its hard negatives, as numbers among all negatives of the pairs (C - B,)."""

    owners: Numbers
    """Query that brought each document, answers first (C,)."""

    contexts: tuple[ContextPlan, ContextPlan] | None
    """What queries and documents read first; None without context."""

    @property
    def columns(self) -> Columns:
        """Whose the documents are, as the loss wants it."""
        return Columns(torch.arange(len(self.rows)), torch.from_numpy(self.owners))

    def documents_of(self, queries: Numbers) -> Numbers:
        """Columns that these queries brought: their answers, then their hard negatives."""
        return np.flatnonzero(np.isin(self.owners, queries))


def plan_batch(
    rows: Numbers,
    pairs: Pairs,
    *,
    step: int,
    seed: int,
    hard_negatives: int = 0,
    context_documents: int = 0,
    tokens_per_document: int = 1,
    sequence_dropout: float = 0.0,
    whole_context_dropout: float = 0.0,
) -> BatchPlan:
    """Decide everything about a batch that is left to chance.

    Args:
        rows: Its pairs (B,).
        pairs: All pairs.
        step: Number of the batch in the whole run.
        seed: Of the run.
        hard_negatives: Negatives per query (n); all of those that have fewer.
        context_documents: Documents that each side reads first (J); 0: none.
        tokens_per_document: First-stage vectors per document (T).
        sequence_dropout: Probability that a context vector is replaced by the null vector.
        whole_context_dropout: Probability that all of a side's are.
    """
    rng = np.random.default_rng((seed, step))
    negatives, owners = _draw_negatives(rows, pairs, hard_negatives, rng)
    contexts = None
    if context_documents:
        query_side, document_side = (
            _draw_context(
                len(owners),
                context_documents,
                tokens_per_document,
                sequence_dropout,
                whole_context_dropout,
                rng,
            )
            for _ in range(2)
        )
        contexts = (query_side, document_side)
    return BatchPlan(step=step, rows=rows, negatives=negatives, owners=owners, contexts=contexts)


def _draw_negatives(
    rows: Numbers, pairs: Pairs, most: int, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Numbers of the hard negatives, and the owners of all documents."""
    numbers, owners = [np.empty(0, np.int64)], [np.arange(len(rows))]
    if most:
        for query, row in enumerate(rows):
            own = np.arange(pairs.first_negative[row], pairs.first_negative[row + 1])
            drawn = own if len(own) <= most else rng.choice(own, most, replace=False)
            numbers.append(drawn)
            owners.append(np.full(len(drawn), query))
    return np.concatenate(numbers), np.concatenate(owners)


def _draw_context(
    documents: int,
    size: int,
    tokens: int,
    dropout: float,
    whole_dropout: float,
    rng: np.random.Generator,
) -> ContextPlan:
    """Without replacement where there are enough, else every document and then some again."""
    drawn = [rng.permutation(documents)[:size]]
    if documents < size:
        drawn.append(rng.integers(documents, size=size - documents))
    whole = rng.random() < whole_dropout
    return ContextPlan(
        documents=np.concatenate(drawn),
        dropped=(rng.random(size * tokens) < dropout) | whole,
    )


@dataclass(frozen=True)
class BatchTexts:
    """The texts of a batch, each with its prefix where the model has prefixes."""

    queries: list[str]
    """Of the batch's pairs (B)."""

    documents: list[str]
    """Answers, then hard negatives (C)."""

    query_prefixes: list[str]
    """Per query (B)."""

    document_prefixes: list[str]
    """Per document (C)."""

    @cached_property
    def query_numbers(self) -> NDArray[np.int64]:
        """A number per query (B,), equal where texts are equal."""
        return _numbered(self.queries)

    @cached_property
    def document_numbers(self) -> NDArray[np.int64]:
        """A number per document (C,), equal where texts are equal."""
        return _numbered(self.documents)

    def prefixed_queries(self, numbers: Numbers) -> list[str]:
        """Some queries as the model reads them."""
        return [self.query_prefixes[i] + self.queries[i] for i in numbers]

    def prefixed_documents(self, numbers: Numbers) -> list[str]:
        """Some documents as the model reads them."""
        return [self.document_prefixes[i] + self.documents[i] for i in numbers]


def texts_of(
    plan: BatchPlan, pairs: Pairs, prefixes: Mapping[str, tuple[str, str]] | None
) -> BatchTexts:
    """Fetch the texts of a batch.

    Args:
        plan: The batch.
        pairs: All pairs.
        prefixes: Domain to (query prefix, document prefix), "*" for those not named, which
            otherwise have those of search; None: no text has a prefix.
    """
    domains = [pairs.domains[number] for number in pairs.domain_of[plan.rows]]
    of_domain = [prefixes_of(domain, prefixes) for domain in domains]
    return BatchTexts(
        queries=pairs.queries(plan.rows),
        documents=pairs.documents(plan.rows) + pairs.negatives(plan.negatives),
        query_prefixes=[query for query, _ in of_domain],
        document_prefixes=[of_domain[owner][1] for owner in plan.owners],
    )


def judged_of(plan: BatchPlan, pairs: Pairs) -> Judged:
    """Fetch what is known of a batch's pairs beyond their texts."""
    judged = Judged.nothing(len(plan.rows), len(plan.owners))
    if len(pairs.scores):
        judged.scores[:] = torch.from_numpy(pairs.scores[plan.rows])
    if len(pairs.label_of):
        judged.labels[:] = torch.from_numpy(pairs.label_of[plan.rows])
    answers = len(plan.rows)
    if len(pairs.teacher_of_documents):
        judged.teacher[:answers] = torch.from_numpy(pairs.teacher_of_documents[plan.rows])
    if len(pairs.teacher_of_negatives):
        judged.teacher[answers:] = torch.from_numpy(pairs.teacher_of_negatives[plan.negatives])
    return judged


def prefixes_of(domain: str, prefixes: Mapping[str, tuple[str, str]] | None) -> tuple[str, str]:
    """Prefix of queries and prefix of documents of a domain, from a mapping as `texts_of` takes."""
    if prefixes is None:
        return "", ""
    query, document = prefixes.get(domain) or prefixes.get("*") or PREFIXES
    return query, document


def _numbered(texts: list[str]) -> NDArray[np.int64]:
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(text, len(number_of)) for text in texts], dtype=np.int64)
