"""The measures of all vectors in a table: a row per model, task and context."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.geometry.measured import COMMAND, measured, of_measure
from cde_eval.report.probe_rows import model_label

SHOWN = {
    "anisotropy": "documents",
    "uniformity": "documents",
    "effective rank": "documents",
    "alignment": "pairs",
}
"""Measures of all vectors, and of which."""


def summary_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model, task and context: the measures of all vectors, and the score."""
    table = []
    for (model, task, context), group in rows.groupby(["model", "task", "context"], sort=False):
        line: dict[str, Any] = {"model": model_label(model), "task": task, "context": context}
        for measure, side in SHOWN.items():
            found = of_measure(group, measure, side=side)["value"]
            line[measure] = f"{found.mean():.1f}" if "rank" in measure else f"{found.mean():.3f}"
        curve = of_measure(group, "ndcg_at_10").groupby("at")["value"].mean()
        for kept in [64, int(curve.index.max())] if len(curve) else []:
            if kept in curve.index:
                name = "nDCG@10" if kept == curve.index.max() else f"nDCG@10, {kept} dim."
                line[name] = f"{curve[kept]:.4f}"
        table.append(line)
    found = pd.DataFrame(table).fillna("")
    return found[[column for column in found if column != "nDCG@10"] + ["nDCG@10"]]


def _make(results: Results) -> pd.DataFrame | None:
    rows = measured(results)
    return None if rows.empty else summary_table(rows)


EXHIBIT = Exhibit(
    name="geometry",
    section="geometry",
    title="How vectors lie in their space",
    caption="Anisotropy: mean cosine of two documents, 0 where they point everywhere alike. "
    "Uniformity: lower is more even. Effective rank: directions in use. Alignment: mean "
    "squared distance of a query and its answer, lower is nearer.",
    source="measures of the chapter on text embedding fundamentals",
    command=COMMAND,
    make=_make,
)
