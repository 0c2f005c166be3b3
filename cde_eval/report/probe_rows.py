"""Rows of a probe that may be shown together, and what their models and contexts are called.

    rows of every table ──▶ newest ──▶ of each model and task those of one table

A probe writes a table for each model, task and set of choices; a figure shows one of a kind, since
rows that were found in different ways are not to be averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cde_eval.encoders.local_name import last_part

CONTEXT = {"none": "no context", "corpus": "its own corpus", "random": "other documents"}


def newest(rows: pd.DataFrame, of: Sequence[str] = ("model", "task")) -> pd.DataFrame:
    """Of each model and task, the rows of one table: the one written last.

    Args:
        rows: Rows of a probe, as `cde_eval.probes.table.read_probe` gives them.
        of: Columns that say what a table is on; those that the probe has not are left out.
    """
    if rows.empty:
        return rows
    keys = [rows[column].astype(str) for column in of if column in rows.columns]
    return rows[rows["table"] == rows.groupby(keys)["table"].transform("last")]


def newest_on_most_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one table: of those on the most training pairs, the one written last."""
    if rows.empty:
        return rows
    rows = rows[rows["pairs"] == rows["pairs"].max()]
    return rows[rows["table"] == rows["table"].iloc[-1]]


def with_labels(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows with models by their `model_label`."""
    return rows if rows.empty else rows.assign(model=rows["model"].map(model_label))


def model_label(model: str) -> str:
    """A model as figures name it: a folder by its last part, a run by its name."""
    kind, colon, name = model.rpartition(":")
    return f"{kind}{colon}{last_part(Path(name))}"


def context_label(context: str) -> str:
    """A context in plain words."""
    return CONTEXT.get(context, context)
