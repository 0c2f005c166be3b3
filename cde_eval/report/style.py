"""One look for every figure, and how a figure becomes a file.

    numbers ──▶ a function under @look(), with styled_figure ──▶ Figure ──▶ save_figure ──▶ files

Figures are drawn at the size at which they are read: a column (3.4 in) or a page (7 in), with
letters of 8 points. A context has one colour and one marker everywhere, and so has a model within
a figure; the colours are Okabe and Ito's, which colour-blind people tell apart.

Source: Okabe and Ito (2008), https://jfly.uni-koeln.de/color/
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import _GeneratorContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cde_eval.results import write_atomically

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: one column, and the full width."""

DOTS_PER_INCH = 200

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#999999", "#E8E8E8"

COLOURS = {"none": GREY, "random": ORANGE, "corpus": BLUE, "candidates": VERMILION}
"""Colour of each context."""

MARKERS = {"none": "o", "random": "s", "corpus": "D", "candidates": "^"}
"""Marker of each context, so that it is known without colour too."""

OTHER_COLOURS = (GREEN, PURPLE, SKY, BLACK)
"""For contexts without a colour of their own: task:NAME, file:PATH."""

OTHER_MARKERS = ("^", "v", "P", "X")
"""For contexts without a marker of their own."""

SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Colours of models, or of whatever else a figure compares, in order."""

SERIES_MARKERS = ("o", "s", "D", "^", "v", "P", "X")

SEQUENTIAL, DIVERGING = "cividis", "RdBu"
"""Colour maps of amounts, and of differences around zero."""

LOOK: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so files are the same everywhere
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.labelcolor": "0.15",
    "axes.edgecolor": "0.45",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "axes.prop_cycle": cycler(color=SERIES),
    "grid.color": "0.92",
    "grid.linewidth": 0.7,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.color": "0.35",
    "ytick.color": "0.35",
    "xtick.labelcolor": "0.15",
    "ytick.labelcolor": "0.15",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7.5,
    "legend.handlelength": 1.4,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "lines.markeredgewidth": 0.8,
    "errorbar.capsize": 0,
    "image.cmap": SEQUENTIAL,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
}
"""matplotlib's settings; what a figure does not say itself comes from here."""


def look(**more: Any) -> _GeneratorContextManager[None]:
    """Give the common look to what is drawn inside, and to functions decorated with it.

    Args:
        more: Further settings of matplotlib, by name.
    """
    settings: Any = {**LOOK, **more}
    return mpl.rc_context(settings)


def styled_figure(
    width: float = COLUMN, height: float = 2.4, *, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure and its axes in the common look.

    What is added later, legends above all, has the look where the function that adds it is under
    `@look()`.

    Args:
        width: In inches: COLUMN or PAGE.
        height: In inches.
        rows: Panels above one another.
        columns: Panels beside one another.
        options: More for `Figure.subplots`, such as sharex.

    Returns:
        The figure, laid out so that nothing is cut off, and its axes (rows, columns).
    """
    with look():
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, np.asarray(figure.subplots(rows, columns, squeeze=False, **options))


def context_colours(policies: Iterable[str]) -> dict[str, str]:
    """A colour for each context: its own, or for other tasks and files the next that is free."""
    spare = iter(OTHER_COLOURS * 8)
    return {one: COLOURS.get(one) or next(spare) for one in dict.fromkeys(policies)}


def context_markers(policies: Iterable[str]) -> dict[str, str]:
    """A marker for each context: its own, or for other tasks and files the next that is free."""
    spare = iter(OTHER_MARKERS * 8)
    return {one: MARKERS.get(one) or next(spare) for one in dict.fromkeys(policies)}


def series_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each model, or whatever is compared, in order."""
    return {one: SERIES[i % len(SERIES)] for i, one in enumerate(dict.fromkeys(names))}


def label_line(axes: Axes, x: float, y: float, text: str, colour: str, **options: Any) -> None:
    """Write a line's name at its end, in its colour, in place of a legend."""
    place = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", **options}
    axes.annotate(text, (x, y), color=colour, fontsize=LOOK["legend.fontsize"], **place)


def save_figure(figure: Figure, name: str, folder: Path) -> tuple[Path, Path]:
    """Write a figure as PNG and SVG, each whole or not at all; same figure, same bytes.

    Args:
        figure: What to write.
        name: Of the files, without ending.
        folder: Where they go.

    Returns:
        The PNG and the SVG.
    """
    png, svg = (folder / f"{name}.{ending}" for ending in ("png", "svg"))
    # The salt makes identifiers the same in every run; dates and versions would differ.
    with look(**{"svg.hashsalt": name}):
        write_atomically(
            png,
            lambda part: figure.savefig(
                part, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None}
            ),
        )
        write_atomically(
            svg, lambda part: figure.savefig(part, format="svg", metadata={"Date": None})
        )
    return png, svg
