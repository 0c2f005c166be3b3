"""Whether it matters where in a document the answer stands: four figures and a table.

    rows of the probes ──┬▶ moved · starts · tenths · spans    figures 1 to 4 of the paper, ours
                         └▶ ends                               beginning against end, in numbers

`places` turns rows into tables of a column per place, and `panels` is what the figures are drawn
with. Intervals are by bootstrap over queries or documents; of counts, Wilson's.

Source: Coelho et al. (2024), Dwell in the Beginning, https://arxiv.org/abs/2404.04163
"""

from cde_eval.report.position import ends, moved, spans, starts, tenths
from cde_eval.report.position.ends import bias_table

__all__ = ["EXHIBITS", "bias_table"]

EXHIBITS = (moved.EXHIBIT, starts.EXHIBIT, tenths.EXHIBIT, spans.EXHIBIT, ends.EXHIBIT)
