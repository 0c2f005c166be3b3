"""Records of search tasks as rows, for figures of what changes with the context.

    records by their files ──▶ evaluations ──▶ a row per record: model, context, draw, score

Whole searches by nDCG@10, under one protocol. A draw is known by its seed, since the same sample is
draw 0 of one command and draw 1 of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from cde_eval.encoders.local_name import LOCAL
from cde_eval.results import TOKENS_PER_DOCUMENT, RunRecord

MEASURE = "ndcg_at_10"

COLUMNS = [
    *("path", "protocol", "model", "revision", "settings", "tokens", "policy", "size", "seed"),
    *("source", "repeats", "task", "task_revision", "score"),
]


def evaluations(records: Mapping[Path, RunRecord]) -> pd.DataFrame:
    """One row per record of a search task.

    Args:
        records: Records by their files.

    Returns:
        With `size`, infinite where all documents are read; `tokens`, vectors per document where
        they were chosen, else 0; `repeats`, whether documents were read twice because there are too
        few; and `score`, the mean over splits and subsets, from 0 to 1.
    """
    rows = [
        _row(path, record)
        for path, record in records.items()
        if record.main_measure == MEASURE and not record.candidates
    ]
    frame = pd.DataFrame(rows, columns=COLUMNS).dropna(subset="score")
    protocols = sorted(frame["protocol"].unique(), key=lambda name: name != "paper")
    return frame[frame["protocol"] == protocols[0]] if protocols else frame


def _row(path: Path, record: RunRecord) -> dict[str, object]:
    settings = dict(record.settings)
    tokens = int(settings.pop(TOKENS_PER_DOCUMENT, 0))
    read = next(iter(record.contexts.values()), {})
    scores = [np.nan if score.main is None else score.main for score in record.scores]
    local = record.model_name.startswith(LOCAL)
    return {
        "path": path,
        "protocol": record.protocol,
        "model": record.model_name.removeprefix(LOCAL) if local else record.model,
        "revision": record.model_revision,
        "settings": json.dumps(settings, sort_keys=True),
        "tokens": tokens,
        "policy": record.policy,
        "size": float("inf") if record.context_size is None else float(record.context_size),
        "seed": read.get("seed", 0),
        "source": read.get("source", ""),
        "repeats": bool(read.get("with_replacement", False)),
        "task": record.task,
        "task_revision": record.task_revision,
        "score": float(np.mean(scores)) if scores else np.nan,
    }


def names(frame: pd.DataFrame, *more: str) -> pd.Series[str]:
    """What each row's model is called: its name, and whatever else tells two runs of it apart.

    Args:
        frame: Rows of `evaluations`.
        more: Columns that tell runs apart, beside revision and settings.
    """
    found = frame["model"].astype(str)
    for column in ("revision", "settings", *more):
        several = frame.groupby("model")[column].transform("nunique") > 1
        what = frame[column].map(_in_words) if column == "settings" else frame[column].map(_short)
        found = found.where(~several, found + " " + what.astype(str))
    return found


def _in_words(settings: str) -> str:
    return ", ".join(str(value) for value in json.loads(settings).values()) or "plain"


def _short(value: object) -> str:
    if isinstance(value, float):
        return "J=all" if np.isinf(value) else f"J={value:.0f}"
    return str(value)[:8]
