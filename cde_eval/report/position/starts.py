"""Where relevant passages stand in their documents.

Source: Coelho et al. (2024), figure 2, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.position.panels import violins
from cde_eval.report.position.places import COMMAND, SOURCE, asked
from cde_eval.report.probe_names import STARTS
from cde_eval.report.style import PAGE, label_line, look, series_colours, styled_figure


@look()
def starts_figure(frame: pd.DataFrame) -> Figure:
    """Where relevant passages begin, in characters and as a share; the paper's figure 2."""
    data = list(dict.fromkeys(frame["data"].astype(str)))
    figure, axes = styled_figure(PAGE, 2.6, columns=2)
    share = frame["start"] / (frame["document"] - frame["passage"]).clip(lower=1)
    colours = series_colours(data)
    for panel, values in zip(axes[0], (frame["start"], 100 * share), strict=True):
        for place, name in enumerate(data):
            own = values[frame["data"] == name].to_numpy(dtype=np.float64)
            violins(panel, own[:, None], [place], colours[name], alpha=0.45)
            low, median, high = np.quantile(own, [0.25, 0.5, 0.75])
            panel.plot([place, place], [low, high], color="0.25", linewidth=2)
            panel.plot([place], [median], marker="o", color="white", markeredgecolor="0.25")
            label_line(panel, place, median, f"{median:,.0f}", "0.15")
        names = [name.replace(", ", ",\n") for name in data]
        panel.set_xticks(range(len(data)), labels=names, rotation=25, ha="right")
        panel.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("characters before the passage")
    axes[0, 0].set_yscale("symlog", linthresh=1_000)  # corpora differ by far, and many start at 0
    axes[0, 0].set_yticks([0, 500, 1_000, 10_000, 100_000])
    axes[0, 0].yaxis.set_major_formatter("{x:,.0f}")
    axes[0, 1].set_ylabel("% of the way to the last place")
    return figure


def _make(results: Results) -> Figure | None:
    frame = asked(results, STARTS)
    return starts_figure(frame) if len(frame) else None


EXHIBIT = Exhibit(
    name="position-starts",
    section="position",
    title="Where answers stand",
    caption="How many characters come before the relevant passage, and how far along its "
    "document it begins: distribution, quartiles (bar) and median (dot). In "
    "the 75,000 documents of MS MARCO that the paper looked at the median is 746 characters.",
    source=f"{SOURCE}, figure 2",
    command=COMMAND + " --part positions",
    make=_make,
)
