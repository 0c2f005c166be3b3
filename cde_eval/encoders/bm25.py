"""BM25, the oldest contextual encoder there is: its context is the IDF table.

    context documents ──▶ IDF table ─┐
                                     ├──▶ score = Σ over query terms of IDF(term) · saturated tf
    corpus ──▶ bm25s index ──────────┘

A term weighs as much as it is rare in the documents that were read. With the corpus as context
this is BM25 as everybody knows it; with other documents it is BM25 that learnt its weights
elsewhere; without context every term weighs the same. The saturation of term frequency and the
length normalisation always come from the documents that are ranked.

Method: bm25s's "lucene" variant, k1 = 1.5, b = 0.75, English stop words, Snowball stemmer, the
settings of mteb's own BM25. Source: Robertson and Zaragoza (2009); Kamphuis et al. (2020).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import bm25s
import numpy as np
import numpy.typing as npt
import Stemmer

from cde_core.errors import ModelError, TaskError
from cde_core.text import Purpose
from cde_eval.encoders.protocol import Similarity
from cde_eval.encoders.registry import LoadOptions
from cde_eval.ranking import Ranking
from cde_eval.search import best_of_scores
from cde_eval.vectors import Rows, Vectors

K1, B = 1.5, 0.75


@dataclass(frozen=True, slots=True)
class IdfTable:
    """In how many of a number of documents each stemmed term occurs."""

    documents: int
    frequency: dict[str, int]


def idf(frequency: npt.NDArray[Any], documents: int) -> npt.NDArray[np.float64]:
    """log(1 + (N − n + ½) / (n + ½)) for n of N documents; never negative."""
    return np.asarray(np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)))


class Bm25:
    """BM25 behind the `Encoder` protocol; it ranks, so it does the retrieval family only."""

    name = "bm25s/lucene"
    context_size: int | None = None
    similarity: Similarity = "dot"
    task_types: frozenset[str] | None = frozenset(
        {"Retrieval", "Reranking", "InstructionRetrieval", "InstructionReranking"}
    )

    def __init__(self) -> None:
        self.revision = version("bm25s")
        self.settings: dict[str, str] = {}

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> IdfTable:
        """Count in how many of the documents each term occurs."""
        counts = Counter(term for terms in _terms(documents) for term in set(terms))
        return IdfTable(len(documents), dict(counts))

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """BM25 has no dense vectors.

        Raises:
            TaskError: Always; `rank` is how BM25 works.
        """
        raise TaskError(
            f"bm25 ranks documents and embeds nothing, so it cannot do {purpose.task_name} "
            f"({purpose.task_type}); leave the task out, or choose another encoder."
        )

    def rank(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        *,
        top_k: int,
        candidates: Sequence[Rows] | None = None,
        context: Any = None,
    ) -> Ranking:
        """Rank documents (all, or each query's candidates) for each query.

        Args:
            queries: Query texts.
            documents: The corpus, titles included.
            top_k: Documents to keep per query.
            candidates: Rows that each query may rank; every one of them is scored.
            context: An `IdfTable`; None weighs all terms the same.
        """
        index = bm25s.BM25(k1=K1, b=B, method="lucene")
        terms_of = _terms(documents)
        any_term = any(terms_of)  # none where all words are too common to count
        if any_term:
            index.index(terms_of, show_progress=False)
            _weigh_terms(index, len(documents), context)
        nowhere = np.zeros(len(documents), dtype=np.float32)
        scores = (
            index.get_scores(terms) if terms and any_term else nowhere for terms in _terms(queries)
        )
        return best_of_scores(scores, top_k, candidates)


def _weigh_terms(index: bm25s.BM25, documents: int, table: IdfTable | None) -> None:
    """Replace the index's own IDF by the table's (by 1 without one), term by term."""
    own_frequency = np.diff(index.scores["indptr"])
    own = idf(own_frequency, documents)
    wanted = np.ones_like(own)
    if table is not None:
        frequency = np.zeros_like(own_frequency)
        for term, column in index.vocab_dict.items():
            if column < len(frequency):  # bm25s adds an empty term that no column stands for
                frequency[column] = table.frequency.get(term, 0)
        wanted = idf(frequency, table.documents)
    per_entry = np.repeat((wanted / own).astype(np.float32), own_frequency)
    index.scores["data"] = index.scores["data"] * per_entry


def _terms(texts: Sequence[str]) -> list[list[str]]:
    terms: list[list[str]] = bm25s.tokenize(
        list(texts),
        stopwords="en",
        stemmer=Stemmer.Stemmer("english"),
        return_ids=False,
        show_progress=False,
        allow_empty=True,
    )
    return terms


def load(argument: str, options: LoadOptions) -> Bm25:
    """BM25 (bm25s), its IDF table read from the context; retrieval and reranking only."""
    if argument:
        raise ModelError(f"`bm25` takes no argument, got {argument!r}.")
    return Bm25()
