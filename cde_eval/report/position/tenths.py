"""A document and its ten tenths: how alike are their vectors?

Source: Coelho et al. (2024), figure 3, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.position.panels import (
    context_key,
    mean_line,
    name_places,
    panels_of,
    violins,
)
from cde_eval.report.position.places import COMMAND, SOURCE, asked, by_tenth
from cde_eval.report.probe_names import TENTHS
from cde_eval.report.style import context_colours, context_markers, look


@look()
def tenths_figure(frame: pd.DataFrame) -> Figure:
    """Cosine of documents with their tenths: distributions and means; the paper's figure 3.

    A panel per data and model; violins are of the first context, lines are the mean of each.
    """
    figure, panels = panels_of(frame, "cosine with the document")
    colours, markers = context_colours(frame["context"]), context_markers(frame["context"])
    for axes, rows in panels:
        for number, (context, own) in enumerate(rows.groupby("context", sort=False)):
            cosines = by_tenth(own)
            colour = colours[str(context)]
            if number == 0:
                columns = sorted(cosines)
                violins(axes, cosines[columns].to_numpy(), columns, colour, alpha=0.25)
            mean_line(axes, cosines, colour, markers[str(context)])
        name_places(axes, "tenth of the document")
    context_key(figure, frame)
    return figure


def _make(results: Results) -> Figure | None:
    frame = asked(results, TENTHS)
    return tenths_figure(frame) if len(frame) else None


EXHIBIT = Exhibit(
    name="position-tenths",
    section="position",
    title="A document and its ten tenths",
    caption="Cosine of the vector of a document with those of its ten tenths by tokens, of "
    "what the model reads: distribution over documents, and means with 95 % intervals.",
    source=f"{SOURCE}, figure 3",
    command=COMMAND + " --part tenths",
    make=_make,
)
