"""A forest plot of the differences between two runs: a row per task with its interval.

    Comparison ──▶ difference_figure ──▶ Figure

The mean of tasks stands at the foot, and a line where there is no difference. What stands after
correction is filled, what does not is hollow, so the answer is read without colour too.

Source: Lewis and Clarke (2001) for the form, https://doi.org/10.1136/bmj.322.7300.1479
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cde_eval.compare import SIGNIFICANT, Comparison, Difference
from cde_eval.report.style import BLUE, VERMILION
from cde_eval.report.tables import measure_name
from cde_eval.report.verdicts import (
    A_BETTER,
    B_BETTER,
    PERCENT,
    UNCLEAR,
    UNTESTED,
    points,
    verdict,
)

MEAN = "mean of tasks"

LONGEST_TASK, LONGEST_RUN = 36, 84  # characters that fit beside and above the plot


def _look(marker: str, edge: str, face: str) -> dict[str, Any]:
    colours = {"markeredgecolor": edge, "markerfacecolor": face}
    return {"marker": marker, "markersize": 5.5, "linestyle": "none", **colours}


LOOKS = {
    A_BETTER: _look("s", VERMILION, VERMILION),
    B_BETTER: _look("o", BLUE, BLUE),
    UNCLEAR: _look("o", "0.45", "white"),
    UNTESTED: _look("x", "0.45", "none"),
    MEAN: _look("D", "black", "black"),
}
"""How each verdict is drawn: shape and filling tell them apart where colours do not."""


def difference_figure(comparison: Comparison) -> Figure:
    """A forest plot: tasks by their difference, the mean of several at the foot."""
    tasks = sorted(comparison.tasks, key=lambda one: (-one.difference, one.task))
    rows = [*tasks, comparison.mean] if len(tasks) > 1 else tasks
    figure = Figure(figsize=(5.6, 1.9 + 0.25 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = [-float(row) for row in range(len(rows))]
    if len(tasks) > 1:
        places[-1] -= 0.4
        axes.axhline(places[-1] + 0.7, color="0.8", linewidth=0.8)
    axes.axvline(0, color="0.25", linewidth=1, zorder=1)
    for place, one in zip(places, rows, strict=True):
        _draw_row(axes, place, one, is_mean=one is comparison.mean)
    axes.set_yticks(places, labels=[_shortened(one.task, LONGEST_TASK) for one in rows])
    axes.set_ylim(places[-1] - 0.6, 0.6)
    _draw_scale(axes, comparison, rows)
    runs = [f"A: {comparison.a}", f"B: {comparison.b}"]
    title = "\n".join(_shortened(run, LONGEST_RUN) for run in runs)
    figure.suptitle(title, fontsize=8.5, x=0.02, ha="left")
    _draw_key(figure, comparison)
    return figure


def _draw_row(axes: Axes, place: float, one: Difference, *, is_mean: bool) -> None:
    look = LOOKS[MEAN if is_mean else verdict(one)]
    if one.low is not None and one.high is not None:
        ends = [points(one.low), points(one.high)]
        axes.plot(ends, [place, place], color=look["markeredgecolor"], linewidth=1.6)
    axes.plot([points(one.difference)], [place], **look)


def _draw_scale(axes: Axes, comparison: Comparison, rows: Sequence[Difference]) -> None:
    measures = {measure_name(one.measure) for one in comparison.tasks}
    what = f"{measures.pop()} × 100" if len(measures) == 1 else "score × 100"
    axes.set_xlabel(f"difference in points ({what})", fontsize=8)
    ends = [end for one in rows for end in (one.low, one.high, one.difference) if end is not None]
    # Zero stands in the middle, so that each half is the side that its heading says.
    reach = 1.08 * max(abs(points(end)) for end in ends) or 1.0
    axes.set_xlim(-reach, reach)
    for x, side in ((0.25, "← A better"), (0.75, "B better →")):
        axes.text(x, 1, side, transform=axes.transAxes, ha="center", va="bottom", fontsize=8.5)
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, labelsize=8)


def _draw_key(figure: Figure, comparison: Comparison) -> None:
    there = {verdict(one) for one in comparison.tasks}
    shown = [
        name for name in LOOKS if name in there or (name == MEAN and len(comparison.tasks) > 1)
    ]
    figure.legend(
        [Line2D([], [], **LOOKS[name]) for name in shown],
        shown,
        title=f"lines: {PERCENT} interval over queries; filled: corrected p ≤ {SIGNIFICANT}",
        title_fontsize=8,
        loc="outside lower center",
        ncols=len(shown),
        frameon=False,
        fontsize=8,
        handletextpad=0.2,
        columnspacing=1.4,
    )


def _shortened(name: str, longest: int) -> str:
    """A name that leaves room for the plot; its middle goes, since its ends tell names apart."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
