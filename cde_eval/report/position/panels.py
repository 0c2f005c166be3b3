"""What the figures of position are drawn with: panels, lines with intervals, violins, a key."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cde_eval.report.position.places import labels, mean_interval
from cde_eval.report.style import (
    COLUMN,
    PAGE,
    context_colours,
    context_markers,
    styled_figure,
)

MOST_BESIDE = 3
"""Panels in a row."""


class Panel(NamedTuple):
    """A part of a figure, and the rows that are drawn there."""

    axes: Axes
    rows: pd.DataFrame


def panels_of(frame: pd.DataFrame, scale: str) -> tuple[Figure, list[Panel]]:
    """A panel per data and model that there are; those of the same data have the same scale.

    Args:
        frame: Rows with `data` and `model`.
        scale: The name of the upright axis.
    """
    frame = frame.assign(model=labels(frame), data=frame["data"].astype(str))
    found = [
        rows
        for _, of_data in frame.groupby("data", sort=False)
        for _, rows in of_data.groupby("model", sort=False)
    ]
    lines = -(-len(found) // MOST_BESIDE)
    beside = -(-len(found) // lines)
    width = COLUMN if beside == 1 else PAGE
    figure, grid = styled_figure(width, 0.5 + 1.8 * lines, rows=lines, columns=beside)
    for spare in grid.flat[len(found) :]:
        spare.set_visible(False)
    panels = [Panel(axes, rows) for axes, rows in zip(grid.flat, found, strict=False)]
    first: dict[str, Axes] = {}
    for number, (axes, rows) in enumerate(panels):
        data, model = rows["data"].iloc[0], rows["model"].iloc[0]
        axes.set_title(f"{model}\n{data}", fontsize=7.5)  # a panel is narrow
        if number % beside == 0:
            axes.set_ylabel(scale)
        if data in first:
            axes.sharey(first[data])
        first.setdefault(data, axes)
    return figure, panels


def name_places(axes: Axes, what: str) -> None:
    """Name the ten places along the bottom of a panel."""
    axes.set_xticks([1, 4, 7, 10], labels=["first", "4th", "7th", "last"])
    axes.set_xlabel(what)


def mean_line(axes: Axes, values: pd.DataFrame, colour: str, marker: str, **style: Any) -> None:
    """The mean of each column, with its 95 % interval as a band."""
    columns = sorted(values)
    bounds = [mean_interval(values[column]) for column in columns]
    if all(bound is not None for bound in bounds):
        low, high = zip(*[bound for bound in bounds if bound is not None], strict=True)
        axes.fill_between(columns, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(columns, values[columns].mean(), color=colour, marker=marker, markersize=3, **style)


def violins(axes: Axes, columns: Any, places: list[int], colour: str, alpha: float) -> None:
    """The distribution of each column, at its place."""
    parts: Any = axes.violinplot(columns, positions=places, widths=0.85, showextrema=False)
    for body in parts["bodies"]:
        body.set(facecolor=colour, alpha=alpha, linewidth=0)


def context_key(figure: Figure, frame: pd.DataFrame) -> None:
    """What the colours mean, where there is more than one context."""
    colours, markers = context_colours(frame["context"]), context_markers(frame["context"])
    if len(colours) < 2:
        return
    handles = [
        Line2D([], [], color=colour, marker=markers[name], markersize=3)
        for name, colour in colours.items()
    ]
    names = [f"context: {name}" for name in colours]
    figure.legend(handles, names, loc="outside upper center", ncols=len(names))
