"""How well does a model search with the first of its dimensions alone? The Matryoshka curve.

    vectors ──▶ the first 8, 16, 32, … dimensions, scaled to length one ──▶ search ──▶ nDCG@10

With all dimensions it is the model's ordinary score.

Source: Kusupati et al. (2022), Matryoshka representation learning,
https://arxiv.org/abs/2205.13147
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytrec_eval

from cde_eval.probes.measures import truncation_steps
from cde_eval.ranking import named
from cde_eval.search import nearest
from cde_eval.tasks.search_data import SearchData
from cde_eval.vectors import Rows, RowsOfVectors, Vectors, unit_length

RANKED = 100
"""Documents per query that nDCG@10 is computed from: more than ten, since names break ties."""


class FirstDimensions:
    """A corpus's vectors without all but their first dimensions."""

    def __init__(self, vectors: RowsOfVectors, kept: int, *, scale: bool) -> None:
        self._vectors, self._kept, self._scale = vectors, kept, scale

    def __len__(self) -> int:
        return len(self._vectors)

    def __getitem__(self, rows: slice | Rows) -> Vectors:
        """Rows by a slice or by their numbers, shape (n, kept), of length one if scaled."""
        first = np.array(self._vectors[rows][:, : self._kept], dtype=np.float32)
        return unit_length(first) if self._scale else first


def truncated_scores(
    data: SearchData, queries: Vectors, documents: RowsOfVectors, *, scale: bool
) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Search with fewer dimensions.

    Args:
        data: The task.
        queries: Vectors of its queries, shape (q, dim).
        documents: Vectors of its documents, shape (n, dim).
        scale: Compare by cosine: scale what is left of a vector to length one.

    Yields:
        A number of dimensions, and nDCG@10 of each judged query.
    """
    grader = pytrec_eval.RelevanceEvaluator(data.judged, {"ndcg_cut.10"})
    for kept in truncation_steps(queries.shape[1]):
        left = FirstDimensions(queries, kept, scale=scale)[:]
        ranking = nearest(left, FirstDimensions(documents, kept, scale=scale), RANKED + 1)
        run = named(ranking, data.query_ids, data.document_ids)
        if data.task.ignore_identical_ids:
            run = {q: {d: s for d, s in ranked.items() if d != q} for q, ranked in run.items()}
        graded = grader.evaluate(dict(run))
        yield kept, np.array([graded[q]["ndcg_cut_10"] for q in data.judged if q in graded])
