"""Whose documents help: tasks down the side, the domains that documents were from along the top.

    records with a context task:X ──▶ matrices ──▶ advantage of the diagonal, a panel per model

Source: Morris and Rush (2024), figure 7, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cde_eval.report.evaluations import MEASURE, evaluations, names
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.style import PAGE, look, styled_figure
from cde_eval.resampling import Floats, interval, resampled_means
from cde_eval.results import read_query_scores, records_by_path

CLOSE = 0.01
"""Scores this near to the row's best are marked."""

DARKEST = 5.0
"""Points below the row's best at which a cell is as pale as it gets."""

FEW = 5
"""Tasks below which a bootstrap over tasks is too narrow, and is said to be of few."""

BESIDE = 6
"""Tasks up to which two panels stand beside each other."""


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


@look()
def domain_figure(found: dict[str, Matrix]) -> Figure:
    """A panel per model: nDCG@10 of each task (rows) with the documents of each (columns).

    The darker a cell, the nearer to its row's best; cells within one point of it have a frame.

    Args:
        found: From `matrices`.
    """
    most = max(len(matrix.scores) for matrix in found.values())
    beside = 2 if most <= BESIDE and len(found) > 1 else 1
    rows = -(-len(found) // beside)
    width = PAGE if beside > 1 or most > BESIDE else 0.62 * PAGE
    figure, grid = styled_figure(width, rows * (1.5 + 0.3 * most), rows=rows, columns=beside)
    panels = list(found.items())
    for place, axes in enumerate(grid.flat):
        if place < len(panels):
            name, matrix = panels[place]
            left = place % beside == 0 or not matrix.scores.index.equals(
                panels[place - 1][1].scores.index
            )
            _panel(axes, name, matrix, named=left)
        else:
            axes.set_visible(False)
    figure.supxlabel("whose documents were read", size=8)
    return figure


def _panel(axes: Axes, name: str, matrix: Matrix, *, named: bool) -> None:
    scores = 100 * matrix.scores
    lost = scores.rsub(scores.max(axis=1), axis=0).to_numpy(dtype=float)
    axes.imshow(lost, cmap="Blues_r", norm=Normalize(-2.5, DARKEST), aspect="auto")
    tasks = list(scores.index)
    places = range(len(tasks))
    axes.set_xticks(places, labels=tasks, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, labels=tasks if named else [""] * len(tasks))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("task" if named else "")
    axes.set_title(name)
    for row, column in np.ndindex(*scores.shape):
        value = float(scores.iloc[row, column])
        if np.isnan(value):
            continue
        near = bool(matrix.marked.iloc[row, column])
        style: dict[str, Any] = {"color": "white" if lost[row, column] < 1.2 else "0.15"}
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", size=7, **style)
        if near:
            axes.add_patch(_frame(row, column))


def _frame(row: int, column: int) -> Rectangle:
    return Rectangle((column - 0.45, row - 0.43), 0.9, 0.86, fill=False, edgecolor="black", lw=1.1)


def _figure(results: Results) -> Figure | None:
    found = matrices(evaluations(records_by_path(results.folder)))
    return domain_figure(found) if found else None


def _note(results: Results) -> str:
    found = matrices(evaluations(records_by_path(results.folder)))
    if not found:
        return ""
    gains = " ".join(f"{name}: {advantage_in_words(matrix)}" for name, matrix in found.items())
    few = sorted({domain for matrix in found.values() for domain in matrix.repeated})
    short = (
        f" {', '.join(few)} {'has' if len(few) == 1 else 'have'} fewer documents than are read, so "
        "some were read twice."
        if few
        else ""
    )
    return f"A task's own documents against the mean of the others', 95 % intervals. {gains}{short}"


EXHIBITS = (
    Exhibit(
        name="figure-7-domains",
        section="context",
        title="Whose documents help",
        caption="nDCG@10 × 100 of each task (rows) when the model has read documents of each "
        "(columns); on the diagonal they are the task's own. The darker a cell, the nearer to its "
        "row's best; cells within one point of that are framed.",
        source="CDE paper, figure 7",
        command="cde-eval domains --model centred:minilm path/to/checkpoint --data my-corpora",
        make=_figure,
        note=_note,
    ),
)
