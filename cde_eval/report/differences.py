"""A comparison of two runs, to be read: a table, a sentence, a picture.

    Comparison ──▶ lines for the terminal · differences.{csv,md} · differences.{png,svg}

The picture is a forest plot: a row per task with its interval, the mean of tasks at the foot, and
a line where there is no difference. What stands after correction is filled, what does not is
hollow, so the answer is read without colour too.

Source: Lewis and Clarke (2001) for the form, https://doi.org/10.1136/bmj.322.7300.1479
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cde_eval.compare import SIGNIFICANT, Comparison, Difference
from cde_eval.report.style import save_figure
from cde_eval.report.table_files import to_markdown
from cde_eval.report.tables import measure_name, score_text
from cde_eval.resampling import CONFIDENCE
from cde_eval.results import write_atomically

B_BETTER, A_BETTER, UNCLEAR = "B better", "A better", "may be chance"
UNTESTED, MEAN = "not tested", "mean of tasks"


def _look(marker: str, edge: str, face: str) -> dict[str, Any]:
    colours = {"markeredgecolor": edge, "markerfacecolor": face}
    return {"marker": marker, "markersize": 5.5, "linestyle": "none", **colours}


LOOKS = {
    A_BETTER: _look("s", "#D55E00", "#D55E00"),  # these two are Okabe and Ito's
    B_BETTER: _look("o", "#0072B2", "#0072B2"),
    UNCLEAR: _look("o", "0.45", "white"),
    UNTESTED: _look("x", "0.45", "none"),
    MEAN: _look("D", "black", "black"),
}
"""How each verdict is drawn: shape and filling tell them apart where colours do not."""

LONGEST_TASK, LONGEST_RUN = 36, 84  # characters that fit beside and above the plot
PERCENT = f"{CONFIDENCE:.0%}".replace("%", " %")


def difference_table(comparison: Comparison) -> pd.DataFrame:
    """One row per task, the mean of tasks below; text cells, differences in points."""
    tasks = comparison.tasks
    rows = [*tasks, comparison.mean] if len(tasks) > 1 else tasks
    several = len({one.measure for one in tasks}) > 1
    table = pd.DataFrame(
        {
            "task": [one.task for one in rows],
            "measure": [measure_name(one.measure) for one in rows],
            "A": [score_text(one.a) for one in rows],
            "B": [score_text(one.b) for one in rows],
            "B − A": [f"{_points(one.difference):+z.2f}" for one in rows],
            f"{PERCENT} interval": [_interval_text(one) for one in rows],
            "p": [_p_text(one.p) for one in rows],
            "p corrected": [_p_text(one.p_corrected) for one in rows],
            "won/lost/tied": [
                "" if one.won is None else f"{one.won}/{one.lost}/{one.tied}" for one in rows
            ],
        }
    )
    return table if several else table.drop(columns="measure")


def number_table(comparison: Comparison) -> pd.DataFrame:
    """The same for programs: numbers, what A and B are on every row, the mean of tasks last."""
    rows = [*comparison.tasks, comparison.mean]
    columns = {
        "task": [one.task for one in rows],
        "measure": [one.measure for one in rows],
        "run_a": [comparison.a for _ in rows],
        "run_b": [comparison.b for _ in rows],
        "score_a": [one.a for one in rows],
        "score_b": [one.b for one in rows],
        "points_b_minus_a": [_points(one.difference) for one in rows],
        "low": [_points(one.low) for one in rows],
        "high": [_points(one.high) for one in rows],
        "p": [one.p for one in rows],
        "p_corrected": [one.p_corrected for one in rows],
    }
    counts = {name: [getattr(one, name) for one in rows] for name in ("won", "lost", "tied")}
    return pd.DataFrame(columns).assign(
        **{name: pd.array(values, dtype="Int64") for name, values in counts.items()}
    )


def heading(comparison: Comparison) -> str:
    """What A and B are, and what the columns of the table mean."""
    tested = sum(one.p is not None for one in comparison.tasks)
    how = (
        f" {PERCENT} interval by paired bootstrap over queries; p by randomisation, corrected by "
        f"Holm's method for {_count(tested, 'task')}; queries won, lost and tied by B."
    )
    return (
        f"A is {comparison.a}. B is {comparison.b}.\n"
        "B − A is in points (score × 100): above zero, B is better." + how * (tested > 0)
    )


def conclusion(comparison: Comparison) -> str:
    """What the table says, in a sentence."""
    tested = [one for one in comparison.tasks if one.p is not None]
    if not tested:
        higher = sum(one.difference > 0 for one in comparison.tasks)
        return (
            f"B scores higher on {higher} of {_count(len(comparison.tasks), 'task')}; without "
            "scores of queries nothing says whether that is chance."
        )
    verdicts = Counter(map(_verdict, tested))
    better, worse, unclear = (verdicts[name] for name in (B_BETTER, A_BETTER, UNCLEAR))
    if unclear == len(tested):
        return f"B is neither better nor worse on {_tasks(tested)}; what differs may be chance."
    if len(tested) == 1:
        return f"B is {'better' if better else 'worse'} on {tested[0].task}."
    says = [f"better on {better}"] if better else []
    says += [f"worse on {worse}"] if worse else []
    rest = f"; on the other {unclear} the difference may be chance" if unclear else ""
    return f"B is {' and '.join(says)} of {len(tested)} tasks after correction{rest}."


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


def write_differences(comparison: Comparison, out: Path) -> list[Path]:
    """Write table and picture, each whole or not at all; the same numbers give the same bytes.

    Args:
        comparison: Two runs, task by task.
        out: Folder for differences.csv, .md, .png and .svg.

    Returns:
        The files.
    """
    paths = [out / f"differences.{ending}" for ending in ("csv", "md", "png", "svg")]
    table, text, *_ = paths
    numbers = number_table(comparison).to_csv(index=False, float_format="%.6g")
    write_atomically(table, numbers)
    parts = [heading(comparison), to_markdown(difference_table(comparison)).rstrip("\n")]
    parts += [conclusion(comparison), *comparison.notes]
    write_atomically(text, "\n\n".join(parts) + "\n")
    save_figure(difference_figure(comparison), "differences", out)
    return paths


def _draw_row(axes: Axes, place: float, one: Difference, *, is_mean: bool) -> None:
    look = LOOKS[MEAN if is_mean else _verdict(one)]
    if one.low is not None and one.high is not None:
        ends = [_points(one.low), _points(one.high)]
        axes.plot(ends, [place, place], color=look["markeredgecolor"], linewidth=1.6)
    axes.plot([_points(one.difference)], [place], **look)


def _draw_scale(axes: Axes, comparison: Comparison, rows: Sequence[Difference]) -> None:
    measures = {measure_name(one.measure) for one in comparison.tasks}
    what = f"{measures.pop()} × 100" if len(measures) == 1 else "score × 100"
    axes.set_xlabel(f"difference in points ({what})", fontsize=8)
    ends = [end for one in rows for end in (one.low, one.high, one.difference) if end is not None]
    # Zero stands in the middle, so that each half is the side that its heading says.
    reach = 1.08 * max(abs(_points(end)) for end in ends) or 1.0
    axes.set_xlim(-reach, reach)
    for x, side in ((0.25, "← A better"), (0.75, "B better →")):
        axes.text(x, 1, side, transform=axes.transAxes, ha="center", va="bottom", fontsize=8.5)
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, labelsize=8)


def _draw_key(figure: Figure, comparison: Comparison) -> None:
    there = {_verdict(one) for one in comparison.tasks}
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


def _verdict(one: Difference) -> str:
    if one.p is None:
        return UNTESTED
    if not one.significant:
        return UNCLEAR
    return B_BETTER if one.difference > 0 else A_BETTER


def _shortened(name: str, longest: int) -> str:
    """A name that leaves room for the plot; its middle goes, since its ends tell names apart."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _points(score: float | None) -> float:
    return float("nan") if score is None else 100 * score


def _interval_text(one: Difference) -> str:
    if one.low is None or one.high is None:
        return ""
    return f"[{_points(one.low):+z.2f}, {_points(one.high):+z.2f}]"


def _p_text(p: float | None) -> str:
    return "" if p is None else f"{p:.4f}"


def _tasks(found: Sequence[Difference]) -> str:
    return found[0].task if len(found) == 1 else f"any of {len(found)} tasks after correction"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
