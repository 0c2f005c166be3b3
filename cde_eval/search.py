"""Exact nearest documents, with integer ids until the very end.

    queries (q, d), documents (n, d) ──▶ faiss, inner products ──▶ Ranking (q, k)

Documents are rows, and stay row numbers until mteb asks for names. mteb's own search turns every
candidate into a Python tuple on a heap; skipping that is most of the difference in speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import faiss
import numpy as np
import numpy.typing as npt

from cde_eval.vectors import Rows, Vectors


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best documents of each query, best first.

    Ids stay integers until the end: they are rows of the corpus that was searched.
    """

    rows: Rows
    """Shape (queries, k); -1 where a query has fewer than k documents."""

    scores: Vectors
    """Shape (queries, k), falling along each row."""


def nearest(queries: Vectors, documents: Vectors, top_k: int) -> Ranking:
    """The `top_k` documents with the greatest inner product for each query, exactly.

    Args:
        queries: Shape (q, d).
        documents: Shape (n, d).
        top_k: Documents per query; all n where there are fewer.
    """
    k = min(top_k, len(documents))
    scores, rows = faiss.knn(
        np.ascontiguousarray(queries, dtype=np.float32),
        np.ascontiguousarray(documents, dtype=np.float32),
        k,
        metric=faiss.METRIC_INNER_PRODUCT,
    )
    return Ranking(rows=rows, scores=scores)


def best_of_candidates(
    queries: Vectors,
    documents: Vectors,
    document_rows: Rows,
    candidates: Sequence[Rows],
    top_k: int,
) -> Ranking:
    """The best of each query's own candidates.

    Args:
        queries: Shape (q, d).
        documents: Shape (n, d), those documents of a corpus that are candidates at all.
        document_rows: Shape (n,), rising: the row in the corpus of each of them.
        candidates: For each query, the rows in the corpus that it may rank.
        top_k: Documents per query.
    """
    best = []
    for query, rows in zip(queries, candidates, strict=True):
        scores = documents[np.searchsorted(document_rows, rows)] @ query
        best.append(_best(scores, rows, top_k))
    return _ranking(best, top_k)


def best_of_scores(
    scores: Iterable[npt.NDArray[np.float32]], top_k: int, candidates: Sequence[Rows] | None
) -> Ranking:
    """The best rows of score vectors, one vector over all documents per query.

    Args:
        scores: For each query, shape (n,).
        top_k: Documents per query.
        candidates: Where given, the only rows that each query may rank.
    """
    best = []
    for number, row_scores in enumerate(scores):
        rows = np.arange(len(row_scores)) if candidates is None else candidates[number]
        best.append(_best(row_scores[rows], rows, top_k))
    return _ranking(best, top_k)


def named(
    ranking: Ranking, query_ids: Sequence[str], document_ids: Sequence[str]
) -> Mapping[str, dict[str, float]]:
    """Scores by query id and document id, as mteb and trec_eval want them."""
    names = np.array(document_ids, dtype=object)
    results = {}
    for query, rows, scores in zip(query_ids, ranking.rows, ranking.scores, strict=True):
        filled = rows >= 0
        if not filled.all():
            rows, scores = rows[filled], scores[filled]
        results[query] = dict(zip(names[rows].tolist(), scores.tolist(), strict=True))
    return results


def _best(scores: npt.NDArray[np.float32], rows: Rows, top_k: int) -> tuple[Rows, Vectors]:
    """The `top_k` greatest scores with their rows, best first; ties by row."""
    if top_k < len(scores):
        by_row = np.argsort(rows, kind="stable")  # candidates come in any order
        scores, rows = scores[by_row], rows[by_row]
        kth = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        above, level = scores > kth, scores == kth
        spare = top_k - int(above.sum())
        keep = np.flatnonzero(above | (level & (np.cumsum(level) <= spare)))
        scores, rows = scores[keep], rows[keep]
    order = np.lexsort((rows, -scores))
    return rows[order], scores[order]


def _ranking(best: list[tuple[Rows, Vectors]], top_k: int) -> Ranking:
    width = min(top_k, max((len(rows) for rows, _ in best), default=0))
    rows = np.full((len(best), width), -1, dtype=np.int64)
    scores = np.full((len(best), width), -np.inf, dtype=np.float32)
    for number, (query_rows, query_scores) in enumerate(best):
        rows[number, : len(query_rows)] = query_rows
        scores[number, : len(query_scores)] = query_scores
    return Ranking(rows=rows, scores=scores)
