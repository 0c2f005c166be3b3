"""Scores of each task with the documents of each: tasks down the side, domains along the top.

    rows of records with a context task:X ──▶ matrices ──▶ a Matrix per model
                                                              └──▶ marked_table, to print

Source: Morris and Rush (2024), figure 7, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cde_eval.report.evaluations import names

CLOSE = 0.01
"""Scores this near to the row's best are marked."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """nDCG@10 of one model, tasks by domains."""

    scores: pd.DataFrame
    """A row per task, a column per domain in the same order; NaN where it was not run."""

    paths: dict[tuple[str, str], list[Path]]
    """The records of each cell, one per draw."""

    repeated: tuple[str, ...]
    """Domains of fewer documents than were read, so that some were read twice."""

    @property
    def advantages(self) -> pd.Series[float]:
        """Of each task with a full row: its own documents less the mean of the others', 0 to 1."""
        full = self.scores.dropna()
        rows = {
            task: full.loc[task, task] - full.loc[task].drop(task).mean() for task in full.index
        }
        return pd.Series(rows, dtype=float)

    @property
    def marked(self) -> pd.DataFrame:
        """Whether each cell is within one point of its row's best."""
        best = self.scores.max(axis=1)
        # Scores have five decimals; sums of draws are off by the last bit.
        return self.scores.ge((best - CLOSE).round(9) - 1e-9, axis=0)


def matrices(frame: pd.DataFrame) -> dict[str, Matrix]:
    """A matrix per model (and size, where there are several).

    A task is in it when it was scored with its own documents. What was read from data that a task
    does not have any more is left out.

    Args:
        frame: Rows of `evaluations`.
    """
    rows = frame[frame["policy"].str.startswith("task:")]
    if rows.empty:
        return {}
    rows = rows.assign(domain=rows["policy"].str.removeprefix("task:"))
    rows = rows.assign(name=names(rows, "size"))
    found = {}
    for name, of_model in rows.groupby("name", sort=False):
        current = _of_current_data(of_model)
        tasks = sorted(current["task"].unique(), key=str.lower)
        if len(tasks) > 1:
            found[str(name)] = _matrix(current, tasks)
    return found


def _of_current_data(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows on the revision of each task that most were made on, with documents of that revision."""
    own = rows[rows["task"] == rows["domain"]]
    counts = rows.groupby(["task", "task_revision"]).size().loc[lambda n: n > 0]
    revision = {task: counts[task].idxmax() for task in own["task"].unique()}
    wanted = rows["domain"].map(revision)
    same_task = rows["task"].map(revision) == rows["task_revision"]
    same_documents = np.array(
        [
            isinstance(one, str) and source.endswith(f" {one}")
            for source, one in zip(rows["source"], wanted, strict=True)
        ],
        dtype=bool,
    )
    return rows[same_task & same_documents]


def _matrix(rows: pd.DataFrame, tasks: Sequence[str]) -> Matrix:
    table = rows.pivot_table(index="task", columns="domain", values="score", aggfunc="mean")
    cells = rows.groupby(["task", "domain"])["path"].apply(list)
    repeated = rows.loc[rows["repeats"], "domain"].unique()
    return Matrix(
        table.reindex(index=tasks, columns=tasks),
        {(str(task), str(domain)): paths for (task, domain), paths in cells.items()},
        tuple(sorted(repeated, key=str.lower)),
    )


def marked_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores × 100 as text, those within one point of their row's best with a mark."""
    marked = Matrix(scores, {}, ()).marked
    text = (100 * scores).map(lambda value: "" if pd.isna(value) else f"{value:.1f}")
    return text.where(~marked, "● " + text)
