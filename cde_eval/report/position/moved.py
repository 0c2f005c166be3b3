"""The same passage at ten places of its document: does the search still find it?

Source: Coelho et al. (2024), figure 1, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.position.panels import (
    context_key,
    mean_line,
    name_places,
    panels_of,
)
from cde_eval.report.position.places import COMMAND, SOURCE, asked, by_place, complete
from cde_eval.report.probe_names import MOVED, PLACES, UNCHANGED
from cde_eval.report.style import PALE, context_colours, context_markers, look
from cde_eval.report.tables import measure_name


@look()
def moved_figure(frame: pd.DataFrame) -> Figure:
    """nDCG@10 with the passage at ten places (dashed), and unmoved (full); the paper's figure 1.

    A panel per data and model. Where the model reads less than half of the passage, the ground is
    grey: what does not enter the model is no bias of its own.

    Args:
        frame: Rows of the probe of moved passages.
    """
    frame = complete(frame)
    figure, panels = panels_of(frame, measure_name("ndcg_at_10"))
    colours, markers = context_colours(frame["context"]), context_markers(frame["context"])
    for axes, rows in panels:
        for context, of_context in rows.groupby("context", sort=False):
            scores = by_place(of_context, "ndcg_at_10")
            colour = colours[str(context)]
            unchanged = scores.pop(UNCHANGED).mean()
            axes.axhline(unchanged, color=colour, linewidth=1.1, zorder=1)
            mean_line(axes, scores, colour, markers[str(context)], linestyle="--")
        _shade_unread(axes, rows)
        name_places(axes, "place of the passage")
    context_key(figure, frame)
    return figure


def _shade_unread(axes: Axes, rows: pd.DataFrame) -> None:
    if rows["read"].isna().all():
        return
    read = rows[rows["place"] != UNCHANGED].groupby("place")["read"].mean()
    unread = [int(place) for place in read.index if read[place] < 0.5]
    if unread:
        axes.axvspan(min(unread) - 0.5, max(unread) + 0.5, color=PALE, alpha=0.6, zorder=0, lw=0)
    if len(unread) > 3:  # else there is no room for words
        place = axes.get_xaxis_transform()
        middle = (min(unread) + max(unread)) / 2
        style: Any = {"ha": "center", "va": "top", "fontsize": 7, "color": "0.35"}
        axes.text(middle, 0.97, "beyond what it reads", transform=place, **style)
    axes.set_xlim(0.5, PLACES + 0.5)


def _make(results: Results) -> Figure | None:
    frame = complete(asked(results, MOVED))
    return moved_figure(frame) if len(frame) else None


EXHIBIT = Exhibit(
    name="position-moved",
    section="position",
    title="The answer at ten places of its document",
    caption="nDCG@10 with the relevant passage moved from the beginning to the end of its "
    "document (dashed) and where it stood (full), with 95 % intervals over queries. On grey "
    "ground the passage is beyond what the model reads.",
    source=f"{SOURCE}, figure 1",
    command=COMMAND + " --part moved",
    make=_make,
)
