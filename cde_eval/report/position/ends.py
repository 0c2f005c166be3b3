"""Beginning against end, in numbers: what every figure of position shows, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.position.places import (
    COMMAND,
    asked,
    by_place,
    by_tenth,
    complete,
    labels,
    mean_interval,
)
from cde_eval.report.probe_names import MOVED, MOVED_MEASURES, SPANS, STARTS, TENTHS, UNCHANGED
from cde_eval.report.tables import measure_name
from cde_eval.resampling import CONFIDENCE


def bias_table(
    found: pd.DataFrame, similar: pd.DataFrame, filled: pd.DataFrame, stood: pd.DataFrame
) -> pd.DataFrame:
    """Beginning against end, a row per model, data, context and measure.

    Args:
        found: Rows of the probe of moved passages; each of these may be empty.
        similar: Of tenths.
        filled: Of spans.
        stood: Of where passages stand.
    """
    rows = [*_moved_rows(found), *_tenth_rows(similar), *_span_rows(filled), *_start_rows(stood)]
    return pd.DataFrame(rows).fillna("")


def _moved_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, data, context), rows in _groups(complete(frame)):
        for measure in MOVED_MEASURES:
            scores = by_place(rows, measure)
            yield {
                "part": "moved passage",
                "model": model,
                "data": data,
                "context": context,
                "measure": _name(measure),
                "unchanged": _text(scores[UNCHANGED].mean()),
                **_ends(scores.drop(columns=UNCHANGED)),
            }


def _tenth_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, data, context), rows in _groups(frame):
        about = {"part": "tenths", "model": model, "data": data, "context": context}
        yield {**about, "measure": "cosine", **_ends(by_tenth(rows))}


def _span_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, data), rows in frame.groupby(["model", "data"], sort=False) if len(frame) else ():
        zones = rows.sort_values("zone")
        share = (zones["right_tokens"] / zones["tokens"]).to_numpy()
        first, last = share[0], share[-1]
        spread = np.sqrt((share * (1 - share) / zones["tokens"]).to_numpy()[[0, -1]]).tolist()
        half = stats.norm.ppf((1 + CONFIDENCE) / 2) * np.hypot(*spread)
        yield {
            "part": "spans",
            "model": model,
            "data": data,
            "measure": "tokens right",
            "first": _text(first),
            "middle": _text(float(share[len(share) // 2 - 1 : len(share) // 2 + 1].mean())),
            "last": _text(last),
            "last − first": f"{last - first:+.4f}",
            "95 %": f"[{last - first - half:+.4f}, {last - first + half:+.4f}]",
        }


def _start_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Where passages stand: the deciles take the place of first and last."""
    for data, rows in frame.groupby("data", sort=False) if len(frame) else ():
        low, median, high = (rows["start"].quantile(share) for share in (0.1, 0.5, 0.9))
        yield {
            "part": "positions",
            "model": "",
            "data": data,
            "context": "",
            "measure": "start, 10 / 50 / 90 % of passages",
            "first": f"{low:,.0f}",
            "middle": f"{median:,.0f}",
            "last": f"{high:,.0f}",
        }


def _ends(scores: pd.DataFrame) -> dict[str, str]:
    """First, middle and last of a table with a row per query and a column per place."""
    columns = sorted(scores)
    first, last = scores[columns[0]], scores[columns[-1]]
    halfway = len(columns) // 2
    middle = scores[columns[halfway - 1 : halfway + 1]].to_numpy().mean()
    difference = (last - first).to_numpy(dtype=np.float64)
    bounds = mean_interval(difference)
    return {
        "first": _text(first.mean()),
        "middle": _text(middle),
        "last": _text(last.mean()),
        "last − first": f"{difference.mean():+.4f}",
        "95 %": "" if bounds is None else f"[{bounds[0]:+.4f}, {bounds[1]:+.4f}]",
    }


def _groups(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The rows of each model (with its pooling), data and context."""
    if not len(frame):
        return
    frame = frame.assign(model=labels(frame))
    for key, rows in frame.groupby(["model", "data", "context"], sort=False):
        yield tuple(map(str, key)), rows  # type: ignore[misc]


def _text(score: float) -> str:
    return f"{score:.4f}"


def _name(measure: str) -> str:
    return {"mrr_at_100": "MRR@100", "recall_at_100": "Recall@100"}.get(measure) or measure_name(
        measure
    )


def _make(results: Results) -> pd.DataFrame | None:
    table = bias_table(*(asked(results, name) for name in (MOVED, TENTHS, SPANS, STARTS)))
    return table if len(table) else None


EXHIBIT = Exhibit(
    name="position-bias",
    section="position",
    title="Beginning against end",
    caption="Scores with the passage first, in the middle and last, cosines of the first and "
    "last tenth, and accuracy in the first and last tenth of the input; the difference with "
    "its 95 % interval. For positions: the deciles of where passages start.",
    source="",
    command=COMMAND,
    make=_make,
)
