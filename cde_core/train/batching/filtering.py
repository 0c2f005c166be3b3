"""Documents of a batch that may answer a query without being labelled so: they count for nothing.

    batch ──▶ Filter.masks ──▶ rows a…b ──▶ masked (b - a, C)

Clusters bring together what is alike, and so bring false negatives together too. A frozen surrogate
scores queries against documents, and what it scores as high as the answer leaves the partition
(`columns.false_negatives`). Its vectors are computed once for all pairs, before training, or for
each batch as it comes. Masks are asked for some queries at a time, so a large batch's never stand
in memory whole.

Texts that are equal need no surrogate: a document with the text of the answer, or of another answer
to a query with the same text, is no negative, not even where the query itself brought it as one.

Source: Morris and Rush (2024), section 4.1, equation 4, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cde_core.train.batching.batches import BatchPlan, BatchTexts, Numbers
from cde_core.train.batching.surrogates import PairVectors, Surrogate
from cde_core.train.objectives.columns import Columns, false_negatives, similar_beyond

Masks = Callable[[Numbers], Tensor | None]
"""From some queries of a batch to what each of them ignores (n, C); None: nothing."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """What leaves the partition of each query."""

    vectors: PairVectors | None = None
    """The surrogate's, computed before training; None: it runs on every batch, or there is none."""

    surrogate: Surrogate | None = None
    """The surrogate itself, where it runs on every batch."""

    margin: float = 0.0
    """ε of equation 4."""

    threshold: float | None = None
    """Where set: documents that score so high leave, whatever the answer scores."""

    duplicates: bool = True
    """Whether equal texts leave."""

    def masks(self, plan: BatchPlan, texts: BatchTexts) -> Masks:
        """What each query of a batch ignores, to be asked for some queries at a time."""
        vectors = self._vectors(plan, texts)

        def masked(queries: Numbers) -> Tensor | None:
            columns = plan.columns.of(torch.from_numpy(queries))
            found = torch.zeros_like(columns.own)
            if self.duplicates:
                found |= _same_texts(queries, texts)
                found.scatter_(1, columns.answers[:, None], value=False)
            if vectors is not None:
                found |= self._similar(vectors[0][torch.from_numpy(queries)], vectors[1], columns)
            return found if found.any() else None

        return masked

    def _vectors(self, plan: BatchPlan, texts: BatchTexts) -> tuple[Tensor, Tensor] | None:
        """The surrogate's vectors of a batch's queries (B, d) and documents (C, d)."""
        if self.vectors is not None:
            queries = self.vectors.queries[plan.rows]
            documents = np.concatenate(
                (self.vectors.documents[plan.rows], self.vectors.negatives[plan.negatives])
            )
        elif self.surrogate is not None:
            queries = self.surrogate.encode(texts.queries, "query")
            documents = self.surrogate.encode(texts.documents, "document")
        else:
            return None
        return torch.from_numpy(np.asarray(queries)), torch.from_numpy(np.asarray(documents))

    def _similar(self, queries: Tensor, documents: Tensor, columns: Columns) -> Tensor:
        scores = queries @ documents.T
        if self.threshold is not None:
            return similar_beyond(scores, columns, threshold=self.threshold)
        # TF-IDF gives zeros for words that it does not know: it has nothing to say of such texts,
        # and an answer's score of zero is no bar for others to pass.
        known = queries.any(dim=1) & documents[columns.answers].any(dim=1)
        return false_negatives(scores, columns, margin=self.margin) & known[:, None]


def _same_texts(queries: Numbers, texts: BatchTexts) -> Tensor:
    """True where a document (n, C) has the text of any answer to a query of the same text."""
    documents, asked = texts.document_numbers, texts.query_numbers
    rows, answers = np.nonzero(asked[None, :] == asked[queries][:, None])
    answering: NDArray[np.bool_] = np.zeros((len(queries), documents.max() + 1), np.bool_)
    answering[rows, documents[answers]] = True
    return torch.from_numpy(answering.take(documents, axis=1))
