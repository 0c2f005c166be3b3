"""What a task's own documents are worth to it over those of other domains, and how surely.

    Matrix ──▶ over_tasks, over_queries ──▶ advantage_in_words

The advantage is the score with the task's own documents less the mean of those with the others'.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from cde_eval.report.domains.matrix import Matrix
from cde_eval.report.evaluations import MEASURE
from cde_eval.resampling import Floats, interval, resampled_means
from cde_eval.results import read_query_scores

FEW = 5
"""Tasks below which a bootstrap over tasks is too narrow, and is said to be of few."""


def over_tasks(matrix: Matrix) -> tuple[float, float] | None:
    """The interval of the mean advantage, were the tasks others of their kind (bootstrap)."""
    means = resampled_means([matrix.advantages.to_numpy()], np.random.default_rng(0))
    return None if means is None else interval(means)


def over_queries(matrix: Matrix) -> tuple[float, float] | None:
    """The interval of the mean advantage, were the queries of these tasks others (bootstrap).

    Queries are resampled within each split and subset of a task, by themselves.

    Returns:
        None where the records have no scores of queries.
    """
    of_tasks = []
    for number, task in enumerate(matrix.advantages.index):
        strata = _differences(matrix, str(task))
        means = resampled_means(strata, np.random.default_rng(number)) if strata else None
        if means is None:
            return None
        of_tasks.append(means)
    return interval(np.mean(of_tasks, axis=0)) if of_tasks else None


def _differences(matrix: Matrix, task: str) -> list[Floats]:
    """By split and subset, what each query gains from the task's own documents."""
    columns = {}
    for domain in matrix.scores.columns:
        draws = [_scores_of_queries(path) for path in matrix.paths[task, domain]]
        known = [draw for draw in draws if draw is not None]
        if len(known) < len(draws):
            return []
        columns[domain] = pd.concat(known, axis=1).mean(axis=1)
    table = pd.DataFrame(columns).dropna()
    gains = table[task] - table.drop(columns=task).mean(axis=1)
    places = gains.groupby(level=["split", "subset"])
    return [part.to_numpy(dtype=np.float64) for _, part in places]


def _scores_of_queries(path: Path) -> pd.Series[float] | None:
    table = read_query_scores(path)
    if table is None or MEASURE not in table:
        return None
    return table.set_index(["split", "subset", "query"])[MEASURE]


def advantage_in_words(matrix: Matrix) -> str:
    """What a task's own documents are worth over those of the others, with its intervals."""
    gains = matrix.advantages
    if gains.empty:
        return "No task has been scored with the documents of all others yet."
    few = ", which are few" * (len(gains) < FEW)
    said = [
        f"{_signed(low)} to {_signed(high)} {over}"
        for found, over in (
            (over_tasks(matrix), f"over the {len(gains)} tasks{few}"),
            (over_queries(matrix), "over their queries"),
        )
        if found is not None
        for low, high in [found]
    ]
    marked = matrix.marked.to_numpy()[matrix.scores.notna().all(axis=1).to_numpy()]
    diagonal = matrix.marked.loc[gains.index].apply(lambda row: bool(row[row.name]), axis=1)
    others = len(gains) * (matrix.scores.shape[1] - 1)
    return (
        f"{_signed(gains.mean())} points ({'; '.join(said)}); within one point of the row's "
        f"best: {int(diagonal.sum())} of {len(gains)} with their own documents, "
        f"{int(marked.sum() - diagonal.sum())} of {others} with those of another."
    ).replace(" ()", "")


def _signed(score: float) -> str:
    return f"{100 * score:+.2f}".replace("-", "−")
