"""What a search is worth with the first dimensions of its vectors alone.

Source: Kusupati et al. (2022), https://arxiv.org/abs/2205.13147
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.geometry.measured import COMMAND, measured, of_measure
from cde_eval.report.geometry.panels import (
    context_key,
    context_lines,
    panels_of,
    powers_of_two,
)
from cde_eval.report.style import look


@look()
def truncation_figure(rows: pd.DataFrame) -> Figure:
    """What a search is worth with the first dimensions alone."""
    figure, panels = panels_of(of_measure(rows, "ndcg_at_10"), "nDCG@10")
    for model, axes in panels.items():
        own = of_measure(rows, "ndcg_at_10", model)
        context_lines(axes, own, "-")
        powers_of_two(axes, own["at"])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("first dimensions kept")
    context_key(figure, rows)
    return figure


def _make(results: Results) -> Figure | None:
    rows = measured(results, "truncation")
    return None if rows.empty else truncation_figure(rows)


def _note(results: Results) -> str:
    rows = measured(results, "truncation")
    said = []
    for model, group in rows.groupby("model", sort=False) if not rows.empty else ():
        curve = group.groupby("at")["value"].mean()
        enough = next(int(at) for at, value in curve.items() if value >= 0.9 * curve.iloc[-1])
        said.append(
            f"{model} has nine tenths of its score with {enough} of {curve.index.max():.0f} "
            "dimensions"
        )
    return "; ".join(said) + "." if said else ""


EXHIBIT = Exhibit(
    name="geometry-truncation",
    section="geometry",
    title="Searching with fewer dimensions",
    caption="nDCG@10 with the first dimensions alone, scaled to length one again; the band is "
    "the 95 % interval over queries.",
    source="Kusupati et al. (2022), Matryoshka representation learning",
    command=COMMAND,
    make=_make,
    note=_note,
)
