"""Rows of a probe that may be shown together, and what their models and contexts are called.

    rows of every table ──▶ current ──▶ of each model and task those of one table

A probe writes a table for each model, task and set of choices; a figure shows one of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cde_eval.encoders.local_name import last_part

CONTEXT = {"none": "no context", "corpus": "its own corpus", "random": "other documents"}


def current(rows: pd.DataFrame, decides: Sequence[str]) -> pd.DataFrame:
    """Of each model and task, the rows of one table: the last, where there are several.

    Args:
        rows: Rows of a probe.
        decides: Columns of what a table was made with; two tables that differ there are not
            averaged.

    Returns:
        These rows, with models by their `model_label`.
    """
    if rows.empty:
        return rows
    known = [column for column in decides if column in rows.columns]
    stamp = rows[known].astype(str).agg("\0".join, axis=1) if known else pd.Series("", rows.index)
    last = stamp.groupby([rows["model"], rows["task"]]).transform("last")
    return rows[stamp == last].assign(model=lambda kept: kept["model"].map(model_label))


def model_label(model: str) -> str:
    """A model as figures name it: a folder by its last part, a run by its name."""
    kind, colon, name = model.rpartition(":")
    return f"{kind}{colon}{last_part(Path(name))}"


def context_label(context: str) -> str:
    """A context in plain words."""
    return CONTEXT.get(context, context)
