"""Rankings, and the numbers that they are sorted by.

    score, row ──encoded──▶ one number: sorted, by score falling and then by row rising ──decoded──▶
                            best_of · merged ──▶ Ranking ──named──▶ ids

The order is total, so the best of a whole are the best of its parts' best, however it was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cde_eval.vectors import Rows, Vectors

Keys = npt.NDArray[np.uint64]
"""A score and a row in one number: sorted, they are by score falling, then by row rising."""

NO_ROW = np.uint32(0xFFFF_FFFF)

UNFILLED = np.uint64(0xFF80_0000_FFFF_FFFF)
"""The key of -inf and no row: after every other."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best documents of each query, best first.

    Ids stay integers until the end: they are rows of the corpus that was searched.
    """

    rows: Rows
    """Shape (queries, k); -1 where a query has fewer than k documents."""

    scores: Vectors
    """Shape (queries, k), falling along each row."""


def merged(rankings: Iterable[Ranking], top_k: int) -> Ranking:
    """The best of several rankings for the same queries, of different parts of one corpus.

    The `top_k` of the parts' own `top_k` are those of the whole, in the same order, however the
    corpus was cut and in whatever order the parts come.

    Args:
        rankings: At least one; rows are of the whole corpus, and no document is in two rankings.
        top_k: Documents per query; fewer where all rankings together have fewer places.
    """
    remaining = iter(rankings)
    first = next(remaining)
    keys = np.sort(encoded(first.scores, first.rows), axis=1)[:, :top_k]
    for ranking in remaining:
        both = np.concatenate([keys, encoded(ranking.scores, ranking.rows)], axis=1)
        keys = np.sort(both, axis=1)[:, :top_k]
    return decoded(keys)


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


def ranking_of(best: list[Keys], top_k: int) -> Ranking:
    """One ranking out of each query's best keys, best first."""
    width = min(top_k, max((len(keys) for keys in best), default=0))
    table = np.full((len(best), width), UNFILLED)
    for keys, line in zip(best, table, strict=True):
        line[: len(keys)] = keys
    return decoded(table)


def best_of(scores: Vectors, rows: Rows, top_k: int) -> Keys:
    """The `top_k` greatest scores with their rows, best first; ties by row."""
    keys = encoded(scores, rows)
    if top_k < len(keys):
        keys = np.partition(keys, top_k)[:top_k]
    return np.sort(keys)


def encoded(scores: Vectors, rows: Rows) -> Keys:
    """Keys of scores and rows; what is not a number counts as -inf, and -0.0 as 0."""
    numbers = np.fmax(scores, np.float32(-np.inf)) + np.float32(0)  # no NaN, and no -0.0
    return _falling(numbers).astype(np.uint64) << np.uint64(32) | rows.astype(np.uint32)


def decoded(keys: Keys) -> Ranking:
    """Rows and scores of keys, in their order."""
    rows = keys.astype(np.uint32)
    scores = _falling((keys >> np.uint64(32)).astype(np.uint32).view(np.float32))
    return Ranking(
        rows=np.where(rows == NO_ROW, -1, rows.astype(np.int64)), scores=scores.view(np.float32)
    )


def _falling(scores: Vectors) -> npt.NDArray[np.uint32]:
    """The bits of floats, so turned that they fall where the floats rise; twice is once.

    A float is a sign and then a magnitude, which must count upwards below zero only.
    """
    bits = scores.view(np.uint32)
    return np.where(np.signbit(scores), bits, bits ^ np.uint32(0x7FFF_FFFF))
