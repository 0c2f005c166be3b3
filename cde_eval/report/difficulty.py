"""How hard batches are by the sizes of clusters and batches, and what models learn from hard ones.

    probe `difficulty` ──▶ difficulty_by_size            (figure 6)
    probe `difficulty-of-runs` ──▶ score_by_difficulty   (figures 2 and 10)

Source: Morris and Rush (2024), https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cde_eval.report.correlation import pearson
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.probe_names import DIFFICULTY, DIFFICULTY_OF_RUNS
from cde_eval.report.probe_rows import newest, newest_on_most_pairs
from cde_eval.report.style import (
    PAGE,
    SERIES_MARKERS,
    look,
    series_colours,
    styled_figure,
)

GROUP = ["kind", "batch_size", "filtered"]
"""What runs have in common that are compared with one another."""


@look()
def difficulty_by_size(frame: pd.DataFrame) -> Figure:
    """Similarity of negatives, and share of false ones, by cluster size; a line per batch size.

    Bars are 95 % intervals over batches. Random batches stand at the right, where a cluster is all.

    Args:
        frame: Rows of the probe `difficulty`, of one table.
    """
    figure, grid = styled_figure(PAGE, 2.7, columns=2, sharex=True)
    sizes = sorted(int(size) for size in frame["cluster_size"].unique() if size)
    random_at = len(sizes) + 0.4
    panels = ((grid[0, 0], "similarity", 1), (grid[0, 1], "false_negatives", 100))
    colours = series_colours(str(size) for size in sorted(frame["batch_size"].unique()))
    for number, (batch, rows) in enumerate(frame.groupby("batch_size")):
        look_of_line = {
            "color": colours[str(batch)],
            "marker": SERIES_MARKERS[number % len(SERIES_MARKERS)],
        }
        clustered = rows[rows["cluster_size"] > 0].sort_values("cluster_size")
        at = [sizes.index(int(size)) for size in clustered["cluster_size"]]
        by_chance = rows[rows["cluster_size"] == 0]
        for axes, column, times in panels:
            axes.plot(at, times * clustered[column], label=f"{batch:,}", **look_of_line)
            axes.plot([random_at] * len(by_chance), times * by_chance[column], **look_of_line)
        for x, part in ((at, clustered), ([random_at] * len(by_chance), by_chance)):
            half = 1.96 * part["similarity_sd"] / np.sqrt(part["batches"])
            grid[0, 0].errorbar(x, part["similarity"], yerr=half.fillna(0), fmt="none",
                                color=colours[str(batch)], linewidth=1)  # fmt: skip
    ticks = [*range(len(sizes)), random_at]
    for axes in grid[0]:
        axes.set_xticks(ticks, labels=[*(f"{size:,}" for size in sizes), "random"])
        axes.set_xlabel("pairs per cluster")
        axes.set_ylim(bottom=0)
    grid[0, 0].set_ylabel("cosine of query and negative")
    grid[0, 0].set_title("How near negatives are")
    grid[0, 1].set_ylabel("% of negatives")
    grid[0, 1].set_title("At least as near as the answer")
    grid[0, 1].legend(title="pairs per batch", loc="upper right")
    return figure


@look()
def score_by_difficulty(frame: pd.DataFrame) -> Figure:
    """Score of each run against how hard its batches were: as it found them, and as a judge does.

    Args:
        frame: Rows of the probe `difficulty-of-runs`, all scored on the same tasks.
    """
    measures = [("loss", "loss at the end of training (nats)")]
    if frame["similarity"].notna().any():
        measures.append(("similarity", "cosine of query and negative"))
    figure, grid = styled_figure(
        PAGE if len(measures) > 1 else 0.6 * PAGE, 3.0, columns=len(measures), sharey=True
    )
    groups = list(frame.groupby(GROUP))
    colours = series_colours(group_in_words(*key) for key, _ in groups)
    for axes, (column, name) in zip(grid[0], measures, strict=True):
        for number, (key, rows) in enumerate(groups):
            label = group_in_words(*key)
            axes.scatter(
                rows[column],
                100 * rows["score"],
                s=22,
                color=colours[label],
                marker=SERIES_MARKERS[number % len(SERIES_MARKERS)],
                label=label,
            )
            _fitted_line(axes, rows[column], 100 * rows["score"], colours[label])
        axes.set_xlabel(name)
    grid[0, 0].set_ylabel("mean score of the tasks, points")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(2, len(labels)))
    return figure


def group_in_words(kind: str, batch_size: int, filtered: str) -> str:
    """What the runs of a group have in common."""
    how = "filtered" if filtered == "yes" else "not filtered"
    return f"{kind}, batches of {batch_size}, {how}"


def _fitted_line(axes: Axes, x: pd.Series, y: pd.Series, colour: str) -> None:
    if pearson(x.tolist(), y.tolist()) is None:
        return
    known = x.notna() & y.notna()
    slope, start = np.polyfit(x[known], y[known], 1)
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, start + slope * ends, color=colour, linewidth=0.9, alpha=0.7)


def correlations_in_words(frame: pd.DataFrame) -> str:
    """Pearson's r of difficulty and score within each group, and over all runs."""
    parts = []
    for column, name in (("loss", "loss"), ("similarity", "similarity")):
        for key, rows in frame.groupby(GROUP):
            found = pearson(rows[column].tolist(), rows["score"].tolist())
            if found is not None:
                parts.append(f"{name}, {group_in_words(*key)}: {found}")
        found = pearson(frame[column].tolist(), frame["score"].tolist())
        if found is not None:
            parts.append(f"{name}, all {found.points} runs, whatever else differs: {found}")
    if not parts:
        return f"{len(frame)} runs are too few for a correlation."
    return f"Pearson's r with its 95 % interval: {'; '.join(parts)}."


def _grid(results: Results) -> pd.DataFrame:
    return newest_on_most_pairs(results.probe(DIFFICULTY))


def _figure_6(results: Results) -> Figure | None:
    frame = _grid(results)
    return difficulty_by_size(frame) if len(frame) else None


def _note_6(results: Results) -> str:
    frame = _grid(results)
    if frame.empty:
        return ""
    first = frame.iloc[0]
    ends = frame.sort_values("similarity").iloc[[0, -1]]
    low, high = (
        f"{row.similarity:.2f} in "
        + (f"batches of {row.batch_size} from clusters of {row.cluster_size:,}"
           if row.cluster_size else f"random batches of {row.batch_size}")
        for row in ends.itertuples()
    )  # fmt: skip
    return (
        f"From {low} to {high}. Pairs: {first['sources']} ({int(first['pairs']):,}); surrogate: "
        f"{first['model']}."
    )


def _runs(results: Results, *, supervised: bool) -> pd.DataFrame:
    """Runs with hard negatives or without, as one surrogate judged them last.

    Of the surrogates, and of the tasks that runs were scored on, those that most of them have.
    """
    frame = newest(results.probe(DIFFICULTY_OF_RUNS), of=("model", "digest"))
    if frame.empty:
        return frame
    frame = frame[(frame["hard_negatives"] > 0) == supervised]
    for column in ("tasks", "model"):
        if len(frame):
            frame = frame[frame[column] == frame[column].mode().iloc[0]]
    return frame


def _figure_of_runs(supervised: bool) -> Callable[[Results], Figure | None]:
    def make(results: Results) -> Figure | None:
        frame = _runs(results, supervised=supervised)
        return score_by_difficulty(frame) if len(frame) else None

    return make


def _note_of_runs(supervised: bool) -> Callable[[Results], str]:
    def note(results: Results) -> str:
        frame = _runs(results, supervised=supervised)
        if frame.empty:
            return ""
        return f"{correlations_in_words(frame)} Tasks: {frame['tasks'].iloc[0]}."

    return note


_CAPTION = (
    "Each point is a training run: across, how hard its batches were; up, its mean score. Runs of "
    "a colour share model, batch size and filter, as the paper controls for, and have a line where "
    "there are four of them."
)

EXHIBITS = (
    Exhibit(
        name="figure-2-difficulty-and-score",
        section="clusters",
        title="Do models learn more from harder batches?",
        caption=_CAPTION,
        source="CDE paper, figure 2",
        command="cde-train sweep training/sweeps/docs-ablations.yaml && "
        "cde-eval difficulty --runs runs/docs-ablations",
        make=_figure_of_runs(supervised=False),
        note=_note_of_runs(supervised=False),
    ),
    Exhibit(
        name="figure-6-difficulty",
        section="clusters",
        title="Small clusters make hard batches, and false negatives",
        caption="Left: mean cosine of a query with documents that are not its own, in batches of "
        "each size from clusters of each size, with 95 % intervals over batches. Right: how many "
        "of those documents the surrogate puts at least as near as the answer, which the filter "
        "would leave out.",
        source="CDE paper, figure 6",
        command="cde-eval difficulty --pairs docs",
        make=_figure_6,
        note=_note_6,
    ),
    Exhibit(
        name="figure-10-difficulty-and-score",
        section="clusters",
        title="The same after training with hard negatives",
        caption=_CAPTION,
        source="CDE paper, figure 10",
        command="cde-train sweep training/sweeps/hard-negatives.yaml && "
        "cde-eval difficulty --runs runs/hard-negatives",
        make=_figure_of_runs(supervised=True),
        note=_note_of_runs(supervised=True),
    ),
)
