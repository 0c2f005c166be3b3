"""How vectors lie in their space: rows of the probe `geometry` in, figures and a table out.

    rows ──▶ measured ──┬▶ layers · spectrum · truncation    a panel per model, a colour per context
                        ├▶ alignment                         a colour per model, a shape per context
                        ├▶ objectives                        a row each, a panel per measure
                        └▶ summary                           a table

What was measured on several tasks or draws is shown as their mean; intervals are means too.
"""

from cde_eval.report.geometry import alignment, layers, objectives, spectrum, summary, truncation
from cde_eval.report.geometry.summary import summary_table

__all__ = ["EXHIBITS", "summary_table"]

EXHIBITS = (
    summary.EXHIBIT,
    layers.EXHIBIT,
    alignment.EXHIBIT,
    spectrum.EXHIBIT,
    truncation.EXHIBIT,
    objectives.EXHIBIT,
)
