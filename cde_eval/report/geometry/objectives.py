"""What each training objective does to the space, and to the search: a row each, four measures.

    rows of the models objective-NAME ──▶ objectives_figure    trained on the same texts, as long

The recipes `training/objective-*.yaml` share texts, backbone and steps; `objective-untrained` is
the model that they start from.

Source: Wang and Isola (2020), https://arxiv.org/abs/2005.10242; the chapter on text embedding
fundamentals
"""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.geometry.measured import OBJECTIVE, compared, of_measure
from cde_eval.report.style import BLUE, GREY, PAGE, look, styled_figure

UNTRAINED = "untrained"

PANELS = (
    ("ndcg_at_10", "pairs", "nDCG@10 (→ better)"),
    ("alignment", "pairs", "alignment (← nearer)"),
    ("uniformity", "documents", "uniformity (← more even)"),
    ("anisotropy", "documents", "anisotropy (← less)"),
)
"""Measure, side, and what stands below it."""


def by_objective(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean over tasks of each measure, and of the ends of its interval, by objective.

    Objectives come from the best score to the worst; the untrained model stands first.
    """
    whole = of_measure(rows, "ndcg_at_10")
    longest = whole.groupby("model")["at"].transform("max")
    kept = pd.concat(
        [
            whole[whole["at"] == longest],
            *(of_measure(rows, measure, side=side) for measure, side, _ in PANELS[1:]),
        ]
    )
    kept = kept.assign(objective=kept["model"].str.removeprefix(OBJECTIVE))
    means = kept.groupby(["objective", "measure"])[["value", "low", "high"]].mean().unstack()
    first = means.index.to_series() == UNTRAINED
    order = means["value"]["ndcg_at_10"].where(~first, float("inf"))
    return means.loc[order.sort_values(ascending=False).index]


@look()
def objectives_figure(rows: pd.DataFrame) -> Figure:
    """Score, alignment, uniformity and anisotropy of every objective, with their intervals.

    Args:
        rows: Rows of the probe `geometry` of models whose names begin with "objective-".
    """
    table = by_objective(rows)
    figure, grid = styled_figure(PAGE, 0.8 + 0.2 * len(table), columns=len(PANELS), sharey=True)
    for axes, (measure, _, label) in zip(grid[0], PANELS, strict=True):
        _panel(axes, table, measure)
        axes.set_xlabel(label)
    grid[0, 0].set_yticks(range(0, -len(table), -1), labels=list(table.index))
    return figure


def _panel(axes: Axes, table: pd.DataFrame, measure: str) -> None:
    value, low, high = (table[part][measure] for part in ("value", "low", "high"))
    for place, name in enumerate(table.index):
        colour = GREY if name == UNTRAINED else BLUE
        ends = [[value[name] - low[name]], [high[name] - value[name]]]
        axes.errorbar(value[name], -place, xerr=ends, color=colour, marker="o", linewidth=1)
    if UNTRAINED in table.index:
        axes.axvline(value[UNTRAINED], color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)


def _make(results: Results) -> Figure | None:
    rows = compared(results)
    return None if rows.empty else objectives_figure(rows)


def _note(results: Results) -> str:
    rows = compared(results)
    if rows.empty:
        return ""
    tasks = ", ".join(dict.fromkeys(rows["task"]))
    return f"Tasks: {tasks}. Intervals are over texts and queries, of one training each."


EXHIBIT = Exhibit(
    name="geometry-objectives",
    section="geometry",
    title="What each objective does to the space",
    caption="Models trained with one objective each, on the same texts, from the same backbone, "
    "for as many steps; grey and dotted: the model that they start from.",
    source="the chapter on text embedding fundamentals",
    command="cde-train training/objective-NAME.yaml, then cde-eval geometry --model "
    "runs/objective-NAME/model … --tasks DocsNetworkX DocsSympy",
    make=_make,
    note=_note,
)
