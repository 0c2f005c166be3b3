"""In how many directions documents vary: the variance that principal components hold."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.geometry.measured import COMMAND, change_in_words, measured, of_measure
from cde_eval.report.geometry.panels import (
    context_key,
    context_lines,
    panels_of,
    powers_of_two,
)
from cde_eval.report.style import look


@look()
def spectrum_figure(rows: pd.DataFrame) -> Figure:
    """How much of the documents' variance their first principal components hold."""
    figure, panels = panels_of(of_measure(rows, "variance"), "variance held")
    for model, axes in panels.items():
        own = of_measure(rows, "variance", model)
        context_lines(axes, own, "-")
        powers_of_two(axes, own["at"])
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel("principal components")
    context_key(figure, rows)
    return figure


def _make(results: Results) -> Figure | None:
    rows = measured(results, "spectrum")
    return None if rows.empty else spectrum_figure(rows)


EXHIBIT = Exhibit(
    name="geometry-spectrum",
    section="geometry",
    title="How many directions hold the variance",
    caption="Share of the documents' variance along their first principal components; the "
    "sooner a line rises, the fewer directions are in use.",
    source="measures of the chapter on text embedding fundamentals",
    command=COMMAND,
    make=_make,
    note=lambda results: change_in_words(results, "effective rank"),
)
