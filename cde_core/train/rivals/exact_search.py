"""The documents that score highest for each query, exactly, however the work is cut.

    queries (n, d)   ┐
    documents (P, d) ┴─▶ faiss, in float32 ──▶ k and some more ──▶ float64 ──▶ the k best (n, k)

The last bits of a float32 product depend on how many queries are multiplied together. Here they may
not: a killed run that goes on in other pieces has to find the same documents, and a document that
only ties with another does not outrank it. So faiss proposes a few more than are asked for, and a
sum that treats every row alike decides among them. What faiss left out scores at most the worst
that it proposed plus a bound on rounding; where that is not enough to be certain (more copies of a
vector than were proposed), all documents are scored in float64.

Documents are read from disk a block at a time, so they may be more than memory holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Scores = NDArray[np.float64]
Numbers = NDArray[np.int64]

MORE = 32
"""Documents that are proposed beyond those asked for."""

DOCUMENTS_AT_ONCE = 65_536
"""Read and multiplied together."""

PRODUCTS_AT_ONCE = 2**22
"""Float64 numbers that stand in memory together while scores are summed."""

ROUNDING = 2.0**-24
"""Largest relative error of one operation in float32."""


def highest(
    queries: Vectors, documents: Vectors, k: int, *, among: Numbers | None = None
) -> tuple[Numbers, Scores]:
    """The `k` documents with the greatest inner product for each query, best first.

    Where scores are equal, the lower number comes first. Results do not depend on which queries
    are asked together.

    Args:
        queries: Shape (n, d); rows of length one, or zeros.
        documents: Shape (P, d); the same. May be memory-mapped.
        k: Documents per query; all where there are fewer.
        among: The only documents that count, rising; None: all.

    Returns:
        Numbers of documents and their scores, shape (n, k) each.
    """
    candidates = np.arange(len(documents)) if among is None else among
    k = min(k, len(candidates))
    if k == 0 or not len(queries):
        return np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
    proposed, worst = _proposed(queries, documents, min(k + MORE, len(candidates)), candidates)
    numbers, scores = _best(proposed, _scores_of(queries, documents, proposed), k)
    # γ of Higham (2002), section 3.1, for either side of the comparison.
    bound = worst + 2 * queries.shape[1] * ROUNDING
    uncertain = (scores[:, -1] <= bound) & (proposed.shape[1] < len(candidates))
    for row in np.flatnonzero(uncertain):
        numbers[row], scores[row] = _of_all(queries[row], documents, candidates, k)
    return numbers, scores


def scores_of_own(queries: Vectors, documents: Vectors) -> Scores:
    """Inner products of rows that belong together (n,), with the bits that `highest` gives them."""
    products = queries.astype(np.float64) * documents.astype(np.float64)
    found: Scores = products.sum(axis=-1)
    return found


def _proposed(
    queries: Vectors, documents: Vectors, k: int, candidates: Numbers
) -> tuple[Numbers, Vectors]:
    """Documents (n, k) that score high in float32, and the lowest of those scores (n,)."""
    import faiss

    asked = np.ascontiguousarray(queries, dtype=np.float32)
    heap = faiss.ResultHeap(len(asked), k, keep_max=True)
    for numbers in _blocks(candidates):
        block = np.ascontiguousarray(documents[numbers], dtype=np.float32)
        found = faiss.knn(asked, block, min(k, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
        heap.add_result(found[0], numbers[found[1]])
    heap.finalize()
    return heap.I, heap.D[:, -1]


def _scores_of(queries: Vectors, documents: Vectors, numbers: Numbers) -> Scores:
    """Score of every query with its own documents (n, k)."""
    scores = np.empty(numbers.shape)
    step = max(1, PRODUCTS_AT_ONCE // (numbers.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        scores[part] = scores_of_own(queries[part, None, :], documents[numbers[part]])
    return scores


def _of_all(
    query: Vectors, documents: Vectors, candidates: Numbers, k: int
) -> tuple[Numbers, Scores]:
    """The same for one query, from the scores of all documents."""
    if not query.any():  # as of a text without a known word: every document scores zero
        return candidates[:k], np.zeros(k)
    scores = [scores_of_own(query[None, :], documents[part]) for part in _blocks(candidates)]
    numbers, best = _best(candidates[None, :], np.concatenate(scores)[None, :], k)
    return numbers[0], best[0]


def _best(numbers: Numbers, scores: Scores, k: int) -> tuple[Numbers, Scores]:
    order = np.lexsort((numbers, -scores), axis=-1)[:, :k]
    return np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)


def _blocks(numbers: Numbers) -> Iterator[Numbers]:
    for start in range(0, len(numbers), DOCUMENTS_AT_ONCE):
        yield numbers[start : start + DOCUMENTS_AT_ONCE]
