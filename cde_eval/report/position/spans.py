"""What a language model fills in rightly, early and late in its input.

Sources: Coelho et al. (2024), figure 4, https://arxiv.org/abs/2404.04163; Wilson (1927),
https://doi.org/10.1080/01621459.1927.10502953
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.position.panels import name_places
from cde_eval.report.position.places import SOURCE, asked, labels
from cde_eval.report.probe_names import SPANS
from cde_eval.report.style import (
    COLUMN,
    SERIES_MARKERS,
    label_line,
    look,
    series_colours,
    styled_figure,
)
from cde_eval.resampling import CONFIDENCE


@look()
def spans_figure(frame: pd.DataFrame) -> Figure:
    """Share of tokens filled in rightly, by zone of the input; the paper's figure 4."""
    figure, grid = styled_figure(COLUMN, 2.4)
    axes = grid[0, 0]
    frame = frame.assign(model=labels(frame))
    several = frame["data"].nunique() > 1
    names = frame["model"] + (", " + frame["data"].astype(str) if several else "")
    colours = series_colours(names)
    for number, (name, rows) in enumerate(frame.groupby(names, sort=False)):
        zones = rows.sort_values("zone")
        share = zones["right_tokens"] / zones["tokens"]
        bounds = [
            stats.binomtest(int(right), int(tokens)).proportion_ci(CONFIDENCE, method="wilson")
            for right, tokens in zip(zones["right_tokens"], zones["tokens"], strict=True)
        ]
        low, high = [bound.low for bound in bounds], [bound.high for bound in bounds]
        colour = colours[str(name)]
        axes.fill_between(zones["zone"], low, high, color=colour, alpha=0.15, linewidth=0)
        marker = SERIES_MARKERS[number % len(SERIES_MARKERS)]
        axes.plot(zones["zone"], share, color=colour, marker=marker)
        label_line(axes, float(zones["zone"].iloc[-1]), share.iloc[-1], str(name), colour)
    axes.set_ylim(bottom=0)
    name_places(axes, "tenth of the input")
    axes.set_ylabel("tokens filled in rightly")
    return figure


def _make(results: Results) -> Figure | None:
    frame = asked(results, SPANS)
    return spans_figure(frame) if len(frame) else None


EXHIBIT = Exhibit(
    name="position-spans",
    section="position",
    title="Filling in words early and late",
    caption="Share of tokens that a language model fills in rightly where spans of three are "
    "taken out of one tenth of its input, with 95 % intervals (Wilson).",
    source=f"{SOURCE}, figure 4",
    command="cde-eval position-bias --model google-t5/t5-base --part spans",
    make=_make,
)
