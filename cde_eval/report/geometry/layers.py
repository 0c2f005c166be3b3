"""Words on their way through the layers: how alike are two, and one to itself in other texts?

Source: Ethayarajh (2019), figures 1 and 2, https://aclanthology.org/D19-1006
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.geometry.measured import COMMAND, measured, of_measure
from cde_eval.report.geometry.panels import context_key, context_lines, panels_of
from cde_eval.report.style import look


@look()
def layer_figure(rows: pd.DataFrame) -> Figure:
    """Layer by layer: how alike two words are, and a word to itself in other texts."""
    figure, panels = panels_of(of_measure(rows, "self-similarity"), "mean cosine")
    for model, axes in panels.items():
        for measure, style, said in (
            ("self-similarity", "-", "one word, other texts"),
            ("word anisotropy", ":", "any two words"),
        ):
            own = of_measure(rows, measure, model)
            context_lines(axes, own, style)
            _label_above(axes, own, said)
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.02)
        axes.set_xlabel("layer (0: what goes in)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    context_key(figure, rows)
    return figure


def _label_above(axes: Axes, rows: pd.DataFrame, text: str) -> None:
    """Name lines at their middle, clear of what is highest there."""
    highest = rows.groupby("at")["value"].max()
    middle, aside = len(highest) // 2, -(-len(highest) // 4)
    y = highest.iloc[max(0, middle - aside) : middle + aside + 1].max()
    offset: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
    axes.annotate(text, (highest.index[middle], y), color="0.3", **offset)


def _make(results: Results) -> Figure | None:
    rows = measured(results, "layers")
    return None if rows.empty else layer_figure(rows)


def _note(results: Results) -> str:
    rows = measured(results, "layers")
    said = []
    for model, group in rows.groupby("model", sort=False) if not rows.empty else ():
        last = group[group["at"] == group["at"].max()].groupby("measure")["value"].mean()
        own, any_two = last["self-similarity"], last["word anisotropy"]
        said.append(
            f"{model}: in the last layer a word has a cosine of {own:.2f} with itself in other "
            f"texts, and two words of {any_two:.2f}."
        )
    return "\n".join(said)


EXHIBIT = Exhibit(
    name="geometry-layers",
    section="geometry",
    title="Words on their way through the layers",
    caption="Mean cosine of two random words, and of one word in different texts. The nearer "
    "the lines, the more of a word's vector is its text.",
    source="Ethayarajh (2019), figures 1 and 2, for encoders of texts",
    command=COMMAND,
    make=_make,
    note=_note,
)
