"""What the figures of geometry are drawn with: a panel per model, a line per context, a key."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from cde_eval.report.probe_rows import context_label
from cde_eval.report.style import (
    COLUMN,
    PAGE,
    context_colours,
    context_markers,
    styled_figure,
)

MOST_BESIDE = 4
"""Panels in a row."""


def panels_of(rows: pd.DataFrame, label: str) -> tuple[Figure, dict[str, Axes]]:
    """A panel for each model in the rows, all on one scale."""
    models = list(dict.fromkeys(rows["model"]))
    beside = min(MOST_BESIDE, len(models))
    above = -(-len(models) // beside)
    width = COLUMN if beside == 1 else min(PAGE, 0.6 + 2.3 * beside)
    figure, grid = styled_figure(
        width, 0.5 + 2.0 * above, rows=above, columns=beside, sharex=False, sharey=True
    )
    for spare in grid.flat[len(models) :]:
        spare.set_axis_off()
    for line in grid:
        line[0].set_ylabel(label)
    for axes, model in zip(grid.flat, models, strict=False):
        axes.set_title(model)
        axes.grid(axis="y")
    return figure, dict(zip(models, grid.flat, strict=False))


def context_lines(axes: Axes, rows: pd.DataFrame, style: str) -> None:
    """A line per context, each a mean over tasks and draws; a band where there are intervals."""
    colours, markers = context_colours(rows["context"]), context_markers(rows["context"])
    for context, group in rows.groupby("context", sort=False):
        means = group.groupby("at")[["value", "low", "high"]].mean()
        axes.plot(
            means.index,
            means["value"],
            color=colours[context],
            linestyle=style,
            marker=markers[context],
            markersize=3,
        )
        if means["low"].notna().all():
            axes.fill_between(
                means.index,
                means["low"],
                means["high"],
                color=colours[context],
                alpha=0.15,
                linewidth=0,
            )


def powers_of_two(axes: Axes, steps: pd.Series) -> None:
    """A scale of powers of two, with a tick at every other and at the last."""
    ticks = sorted({int(step) for step in steps})
    shown = ticks[::-2][::-1]
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, labels=[f"{tick:,}" for tick in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def context_key(figure: Figure, rows: pd.DataFrame) -> None:
    """What the colours mean, where there is more than one context."""
    colours, markers = context_colours(rows["context"]), context_markers(rows["context"])
    if len(colours) < 2:
        return
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker=markers[one], label=context_label(one))
            for one, colour in colours.items()
        ],
        loc="outside upper left",
        ncols=len(colours),
    )
