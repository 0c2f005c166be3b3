"""What the probe `geometry` has measured: the rows of a part, of a measure, and what changes."""

from __future__ import annotations

import pandas as pd

from cde_eval.report.exhibits import Results
from cde_eval.report.probe_names import GEOMETRY
from cde_eval.report.probe_rows import newest, with_labels

COMMAND = "cde-eval geometry --model minilm centred:minilm path/to/model"

OBJECTIVE = "objective-"
"""How the names of models begin that were trained to compare objectives; they are shown apart."""


def measured(results: Results, part: str | None = None) -> pd.DataFrame:
    """The rows of a part of the probe, or of all; empty where it was not run."""
    rows = with_labels(newest(results.probe(GEOMETRY)))
    if rows.empty:
        return rows
    rows = rows[~rows["model"].str.startswith(OBJECTIVE)]
    return rows if part is None else rows[rows["part"] == part]


def compared(results: Results) -> pd.DataFrame:
    """The rows of models that were trained to compare objectives."""
    rows = with_labels(newest(results.probe(GEOMETRY)))
    return rows if rows.empty else rows[rows["model"].str.startswith(OBJECTIVE)]


def of_measure(
    rows: pd.DataFrame, measure: str, model: str | None = None, *, side: str | None = None
) -> pd.DataFrame:
    """The rows of one measure, of all models and sides or of one."""
    chosen = rows["measure"] == measure
    if model is not None:
        chosen &= rows["model"] == model
    if side is not None:
        chosen &= rows["side"] == side
    return rows[chosen]


def change_in_words(results: Results, measure: str) -> str:
    """What the corpus as context changes of a measure of documents, for each contextual model."""
    rows = measured(results, "vectors")
    if rows.empty:
        return ""
    said: list[str] = []
    for model, group in of_measure(rows, measure, side="documents").groupby("model", sort=False):
        means = group.groupby("context")["value"].mean()
        if {"corpus", "none"} <= set(means.index):
            what = "" if said else f", {measure} of documents"
            said.append(
                f"{model}{what}: {_number(means['none'])} without context, "
                f"{_number(means['corpus'])} with its own corpus"
            )
    return "; ".join(said) + "." if said else ""


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
