"""Rows of the probes of position as tables: a row per query, a column per place in the document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cde_eval.report.exhibits import Results
from cde_eval.report.probe_names import PLACES
from cde_eval.report.probe_rows import model_label, newest
from cde_eval.resampling import interval, resampled_means

SOURCE = "Coelho et al. (2024), Dwell in the Beginning"
COMMAND = "cde-eval position-bias --model minilm --context corpus random none"


def asked(results: Results, probe: str) -> pd.DataFrame:
    """The rows of one of these probes, of each model and data as they were asked last."""
    return newest(results.probe(probe), of=("model", "pooling", "data"))


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Moved passages without the situations of a run that has not come to the last place yet."""
    if not len(frame):
        return frame
    reached = frame.groupby(["model", "data", "context", "draw"])["place"].transform("max")
    return frame[reached == PLACES]


def labels(frame: pd.DataFrame) -> pd.Series:
    """The model's name as it is shown, and the pooling if it was changed."""
    short = frame["model"].astype(str).map(model_label)
    if "pooling" not in frame:
        return short
    pooling = frame["pooling"].fillna("").astype(str)
    return short + np.where(pooling != "", ", " + pooling, "")


def by_place(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A score with the passage at each place (columns), of each query (rows); mean over draws."""
    keyed = rows.assign(query=rows["query"].astype(str))
    return keyed.pivot_table(index="query", columns="place", values=measure)


def by_tenth(rows: pd.DataFrame) -> pd.DataFrame:
    """The cosine with each tenth (columns), of each document (rows); mean over draws."""
    return rows.pivot_table(index="document", columns="tenth", values="cosine")


def mean_interval(values: Any) -> tuple[float, float] | None:
    """Where the mean of other queries, or documents, would lie; None of a single one."""
    means = resampled_means([np.asarray(values, dtype=np.float64)], np.random.default_rng(0))
    return None if means is None else interval(means)
