"""Queries near their answers, and documents far from one another: both in one picture.

Source: Wang and Isola (2020), https://arxiv.org/abs/2005.10242
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.geometry.measured import COMMAND, change_in_words, measured, of_measure
from cde_eval.report.probe_rows import context_label
from cde_eval.report.style import COLUMN, context_markers, look, series_colours, styled_figure


@look()
def alignment_figure(rows: pd.DataFrame) -> Figure:
    """Queries near their answers, and documents far from one another: both at once."""
    figure, grid = styled_figure(COLUMN, 2.7)
    axes = grid[0, 0]
    spread = of_measure(rows, "uniformity", side="documents")
    near = of_measure(rows, "alignment")
    markers = context_markers(rows["context"])
    models = series_colours(rows["model"])
    for model, colour in models.items():
        for context in dict.fromkeys(rows.loc[rows["model"] == model, "context"]):
            x, y = (_mean(one, model, context) for one in (spread, near))
            axes.errorbar(
                x["value"],
                y["value"],
                xerr=[[x["value"] - x["low"]], [x["high"] - x["value"]]],
                yerr=[[y["value"] - y["low"]], [y["high"] - y["value"]]],
                color=colour,
                marker=markers[context],
                linewidth=0.9,
                linestyle="none",
            )
    axes.set_xlabel("uniformity of documents (← more even)")
    axes.set_ylabel("distance of query and answer\n(alignment; ↓ nearer)")
    axes.margins(0.12)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    _key(figure, models, markers)
    return figure


def _mean(rows: pd.DataFrame, model: str, context: str) -> pd.Series:
    of_both = rows[(rows["model"] == model) & (rows["context"] == context)]
    return of_both[["value", "low", "high"]].mean()


def _key(figure: Figure, models: dict[str, str], markers: dict[str, str]) -> None:
    """Colours are models; shapes are contexts, where there is more than one."""
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="none", label=model)
        for model, colour in models.items()
    ]
    if len(markers) > 1:
        handles += [
            Line2D([], [], color="0.4", marker=marker, linestyle="none", label=context_label(one))
            for one, marker in markers.items()
        ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handletextpad=0.3)


def _make(results: Results) -> Figure | None:
    rows = measured(results, "vectors")
    return None if rows.empty else alignment_figure(rows)


EXHIBIT = Exhibit(
    name="geometry-alignment",
    section="geometry",
    title="Alignment and uniformity",
    caption="Better is to the left (documents spread evenly) and down (queries near their "
    "answers). Colours are models, shapes are what was read first.",
    source="Wang and Isola (2020), alignment and uniformity",
    command=COMMAND,
    make=_make,
    note=lambda results: change_in_words(results, "uniformity"),
)
