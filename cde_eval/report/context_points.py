"""Points of a curve: score against the size of the context, or how its documents are cut.

    rows of evaluations ──▶ size_curves, token_curves ──▶ points with intervals over draws
                        └─▶ gain_of_reading           ──▶ largest size less smallest, over queries

A point is a mean over tasks, the same tasks along a line. Its interval is Student's, over draws:
where the mean of many samples of the corpus would lie. What is read without chance has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from cde_core.errors import CdeError
from cde_eval.compare import Difference, compare
from cde_eval.report.evaluations import names
from cde_eval.resampling import CONFIDENCE
from cde_eval.results import RunRecord
from cde_eval.sides import Side

LEAST = 3
"""Sizes below which there is no curve: an ordinary run has the model's own, and none."""

POINT = ["line", "policy", "x", "documents", "mean", "low", "high", "draws", "tasks"]


def size_curves(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of score against the size of the context (`x`; infinite for all documents).

    Args:
        frame: Rows of `evaluations`.

    Returns:
        A row per model (`line`), context (`policy`) and size, with `mean`, the ends of its interval
        and how many draws and tasks it is the mean of; nothing of models with few sizes.
    """
    rows = frame[frame["tokens"].eq(0) & ~frame["policy"].str.startswith(("task:", "file:"))]
    reading = rows[rows["size"] > 0]
    rows = rows[rows["model"].isin(reading["model"])]
    rows = rows.assign(line=names(rows), x=rows["size"])
    points = []
    for line, of_model in rows.groupby("line", sort=False):
        without = of_model[of_model["size"] == 0]
        for policy, read in of_model[of_model["size"] > 0].groupby("policy", sort=False):
            shared = _of_shared_tasks(pd.concat([without, read]))
            if shared["x"].nunique() >= LEAST:
                points += [{"line": line, "policy": policy, **point} for point in _points(shared)]
    return pd.DataFrame(points, columns=POINT)


def token_curves(frame: pd.DataFrame) -> pd.DataFrame:
    """As `size_curves`, of score against vectors per document (`x`), with as many in all.

    Args:
        frame: Rows of `evaluations`.
    """
    rows = frame[frame["tokens"].gt(0) & frame["policy"].eq("corpus")]
    if rows.empty:
        return pd.DataFrame(columns=POINT)
    rows = rows.assign(x=rows["tokens"].astype(float), vectors=rows["tokens"] * rows["size"])
    rows = rows.assign(line=names(rows))
    several = rows.groupby("line")["vectors"].transform("nunique") > 1
    total = rows["vectors"].map(lambda vectors: f" {vectors:.0f} vectors")
    rows["line"] = rows["line"].where(~several, rows["line"] + total)
    points = []
    for line, of_model in rows.groupby("line", sort=False):
        shared = _of_shared_tasks(of_model)
        if shared["x"].nunique() > 1:
            points += [{"line": line, "policy": "corpus", **point} for point in _points(shared)]
    return pd.DataFrame(points, columns=POINT)


def _of_shared_tasks(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the tasks that were scored at the most places along the line, at those places."""
    places = rows.groupby("task")["x"].agg(frozenset)
    most = max(places, key=len)
    tasks = [task for task, here in places.items() if here >= most]
    return rows[rows["task"].isin(tasks) & rows["x"].isin(most)]


def _points(rows: pd.DataFrame) -> Iterator[dict[str, float]]:
    """For each place along the line, the mean over draws of the mean over tasks."""
    for x, here in rows.groupby("x"):
        by_draw = here.pivot_table(index="seed", columns="task", values="score")
        whole = by_draw.dropna().mean(axis=1).to_numpy(dtype=np.float64)
        if len(whole):
            low, high = over_draws(whole)
            yield {
                "x": float(str(x)),
                "documents": float(here["size"].iloc[0]),
                "mean": float(whole.mean()),
                "low": low,
                "high": high,
                "draws": len(whole),
                "tasks": by_draw.shape[1],
            }


def over_draws(scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """Student's 95 % interval of the mean of some draws; NaN for a single one."""
    if len(scores) < 2:
        return math.nan, math.nan
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, len(scores) - 1) * stats.sem(scores)
    return float(scores.mean() - reach), float(scores.mean() + reach)


def curve_table(points: pd.DataFrame) -> pd.DataFrame:
    """Points as a command prints them: × 100, with the interval."""

    def interval(row: pd.Series[float]) -> str:
        one = math.isnan(row["low"])
        return "" if one else f"{100 * row['low']:.2f} to {100 * row['high']:.2f}"

    cut = points["documents"].ne(points["x"]).any()
    table = {
        "model": points["line"],
        "context": points["policy"],
        **({"vectors per document": points["x"].map(size_text)} if cut else {}),
        "documents": points["documents"].map(size_text),
        "nDCG@10 × 100": points["mean"].map(lambda mean: f"{100 * mean:.2f}"),
        "95 % over draws": points.apply(interval, axis=1, result_type="reduce"),
        "draws": points["draws"],
        "tasks": points["tasks"],
    }
    return pd.DataFrame(table)


def size_text(size: float) -> str:
    """A size as figures and tables show it: "64", or "all" where it is infinite."""
    return "all" if math.isinf(size) else f"{size:.0f}"


def _side(letter: str, size: float, rows: pd.DataFrame, records: dict[Path, RunRecord]) -> Side:
    here = rows[rows["x"] == size]
    tasks = {
        str(task): {path: records[path] for path in of_task["path"]}
        for task, of_task in here.groupby("task")
    }
    return Side(letter, size_text(size), tasks)


def gain_of_reading(
    frame: pd.DataFrame, records: dict[Path, RunRecord]
) -> list[tuple[str, float, float, Difference]]:
    """For each model, its smallest and its largest size, and the difference over the queries.

    Args:
        frame: Rows of `evaluations`.
        records: The records that they were made from.

    Returns:
        Model, sizes, and the largest less the smallest as a mean over tasks; its interval is over
        queries, whose scores are means over draws.
    """
    found = []
    rows = frame[frame["tokens"].eq(0) & (frame["policy"].isin(["corpus", "none"]))]
    rows = rows[rows["model"].isin(rows.loc[rows["size"] > 0, "model"])]
    rows = rows.assign(line=names(rows), x=rows["size"])
    for line, of_model in rows.groupby("line", sort=False):
        shared = _of_shared_tasks(of_model)
        sizes = sorted(shared["x"].unique())
        if len(sizes) < LEAST:
            continue
        sides = (
            _side(letter, size, shared, records)
            for letter, size in (("A", sizes[0]), ("B", sizes[-1]))
        )
        try:
            difference = compare(*sides).mean
        except CdeError:  # results of several kinds, which compare does not mix
            continue
        found.append((str(line), sizes[0], sizes[-1], difference))
    return found
