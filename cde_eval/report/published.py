"""Tables 1, 2 and 7 of the CDE paper: our rows under the published ones.

    reports/published/NAME.csv + sweeps, records ──▶ one table each

Published numbers are shown as printed, and so are ours beside them: in points, with as many digits.
As long as a table has no row of ours it shows the published ones, and the command that adds to
them.

Source: Morris and Rush (2024), https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

import pandas as pd

from cde_eval.report.benchmark import TYPES, benchmark_tasks, our_scores
from cde_eval.report.exhibits import Exhibit, Results

PAPER, OURS = "paper", "ours"

BESIDE = ("jxm/cde-small-v2", "sentence-transformers/all-MiniLM-L6-v2")
"""Models whose rows table 2 takes from the leaderboard, below those of the paper."""

TICKS = {"yes": "✓", "no": ""}


def points(score: float, places: int = 1) -> str:
    """A score from 0 to 1, in points."""
    return "" if pd.isna(score) else f"{100 * score:.{places}f}"


def printed(value: Any, places: int = 1) -> str:
    """A published number with its digits; words as they are."""
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value:.{places}f}"


def whole(value: Any) -> str:
    """A count."""
    return "" if pd.isna(value) else f"{int(value):,}"


def some(rows: list[dict[str, str]]) -> pd.DataFrame | None:
    """A table of these rows, or None where there are none."""
    return pd.DataFrame(rows).fillna("") if rows else None


def beneath(published: pd.DataFrame | None, ours: pd.DataFrame | None) -> pd.DataFrame | None:
    """Both, ours below; None where nothing is ours."""
    if ours is None:
        return None
    return ours if published is None else pd.concat([published, ours]).fillna("")


# Table 1: random and clustered batches, without and with context


def _table_1_published(results: Results) -> pd.DataFrame | None:
    rows = [
        {
            "from": PAPER,
            "contextual batch": TICKS[row.contextual_batch],
            "contextual arch.": TICKS[row.contextual_arch],
            "otherwise": "",
            "batch": whole(row.batch_size),
            "cluster": whole(row.cluster_size),
            "train loss": printed(row.train_loss, 2),
            "train accuracy": printed(row.train_acc),
            "nDCG@10": printed(row.ndcg_at_10),
        }
        for row in results.published("cde_table_1").itertuples()
    ]
    return some(rows)


def _table_1(results: Results) -> pd.DataFrame | None:
    cells: dict[tuple[tuple[str, str], ...], list[dict[Any, Any]]] = {}
    for row in results.sweeps.to_dict("records"):
        if _of_table_1(row):
            cells.setdefault(_cell(row), []).append(dict(row))
    return beneath(_table_1_published(results), some([_sweep_row(runs) for runs in cells.values()]))


def _cell(row: dict[Any, Any]) -> tuple[tuple[str, str], ...]:
    """What runs that differ in nothing but their seed have in common."""
    measured = ("loss", "accuracy", "steps", "seed")
    return tuple(
        (str(name), str(value))
        for name, value in row.items()
        if name not in measured and "/" not in str(name) and not _absent(row, name)
    )


def _of_table_1(row: dict[Any, Any]) -> bool:
    return not pd.isna(row.get("model.kind")) and not pd.isna(row.get("clusters.size"))


SAID = ("sweep", "model.kind", "clusters.size", "batches.size", "loss", "accuracy", "steps",
        "model.freeze", "batches.across_domains", "seed")  # fmt: skip


def _sweep_row(runs: list[dict[Any, Any]]) -> dict[str, str]:
    """One cell, over its seeds."""
    row = runs[0]
    others = [
        f"{str(name).replace('.', ' ')}: {value or 'none'}"
        for name, value in row.items()
        if name not in SAID and "/" not in str(name) and not _absent(row, name)
    ]
    if len(runs) > 1:
        others.append(f"mean ± deviation of {len(runs)} seeds")
    clusters = row["clusters.size"]
    scores = [score for run in runs if (score := _score(run)) is not None]
    return {
        "from": f"{OURS}: {row['sweep']}",
        "contextual batch": TICKS["yes" if clusters else "no"],
        "contextual arch.": TICKS["yes" if row["model.kind"] == "contextual" else "no"],
        "otherwise": ", ".join(others),
        "batch": whole(row.get("batches.size")),
        "cluster": whole(clusters) if clusters else "",
        "train loss": printed(mean(run["loss"] for run in runs), 2),
        "train accuracy": points(mean(run["accuracy"] for run in runs)),
        "nDCG@10": _with_deviation(scores),
    }


def _score(run: dict[Any, Any]) -> float | None:
    """With the corpus as context, or without any where the model reads none."""
    named = (name for name in ("mean/corpus", "mean/none") if not _absent(run, name))
    return next((float(run[name]) for name in named), None)


def _with_deviation(scores: list[float]) -> str:
    if len(scores) < 2:
        return points(scores[0]) if scores else ""
    return f"{points(mean(scores))} ± {points(stdev(scores))}"


def _absent(row: dict[Any, Any], name: str) -> bool:
    value = row.get(name)
    return value is None or (isinstance(value, float) and pd.isna(value))


# Tables 2 and 7: MTEB by type of task, and its retrieval data set by data set


def _table_2_published(results: Results) -> pd.DataFrame | None:
    rows = [
        {
            "model": row["model"],
            "context": "" if pd.isna(row["context"]) else row["context"],
            **{kind: printed(row[kind]) for kind in TYPES},
            "mean": printed(row["mean"], 2),
            "from": PAPER,
        }
        for row in results.published("cde_table_2").to_dict("records")
    ]
    leaderboard, tasks = results.published("mteb_eng_v1"), benchmark_tasks(results)
    if not leaderboard.empty and not tasks.empty:
        by_name = leaderboard.set_index("model")
        for name in BESIDE:
            if name in by_name.index:
                scores = by_name.loc[name, list(tasks.index)].astype(float)
                means = _by_type(scores, tasks)
                rows.append({"model": name, "context": "", **means, "from": "leaderboard"})
    return some(rows)


def _table_2(results: Results) -> pd.DataFrame | None:
    tasks, rows = benchmark_tasks(results), []
    for (_, model, policy), scores in our_scores(results).iterrows():
        means = _by_type(scores.reindex(tasks.index).astype(float), tasks)
        if any(means.values()):
            rows.append({"model": model, "context": policy, **means, "from": OURS})
    return beneath(_table_2_published(results), some(rows))


def _by_type(scores: pd.Series[float], tasks: pd.DataFrame) -> dict[str, str]:
    """Means of the types that are complete, and of all tasks where all are."""
    means = {
        kind: points(scores[tasks.index[tasks["type"] == kind]].mean(skipna=False))
        for kind in TYPES
    }
    return {**means, "mean": points(scores.mean(skipna=False), 2)}


def _table_7_published(results: Results) -> pd.DataFrame | None:
    published = results.published("cde_table_7")
    if published.empty:
        return None
    numbers = published.drop(columns=["training", "method"]).map(printed)
    numbers.insert(0, "run", published["method"] + ", " + published["training"])
    numbers.insert(1, "from", PAPER)
    return numbers


def _table_7(results: Results) -> pd.DataFrame | None:
    published = _table_7_published(results)
    scores = our_scores(results)
    if published is None or scores.empty:
        return None
    tasks = [name for name in published.columns if name not in ("run", "from", "mean")]
    ours = scores.reindex(columns=tasks).dropna(how="all").astype(float)
    if ours.empty:
        return None
    cells = ours.map(points)
    cells["mean"] = [points(mean) for mean in ours.mean(axis=1, skipna=False)]
    cells.insert(0, "run", [run for run, _, _ in ours.index])
    cells.insert(1, "from", OURS)
    return beneath(published, cells)


EXHIBITS = (
    Exhibit(
        name="table_1",
        section="scores",
        title="Harder batches and context, each alone and both",
        caption="Four small models: random or clustered batches, without or with the contextual "
        "architecture. The paper's rows are scored on its short BEIR; ours on what their sweep "
        "names, from other data, so compare within each group and not across.",
        source="CDE paper, table 1",
        command="cde-train sweep training/sweeps/docs-ablations.yaml "
        "--output results/sweeps/docs-ablations",
        make=_table_1,
        published=_table_1_published,
    ),
    Exhibit(
        name="table_2",
        section="scores",
        title="MTEB by type of task",
        caption="Mean main score of each type's tasks of MTEB(eng, v1), in points. Context "
        "“corpus” is what the paper calls Contextual, and “random” its Random: documents of other "
        "domains. A mean of ours is given only where all of its tasks were run.",
        source="CDE paper, table 2",
        command='cde-eval mteb --model MODEL --benchmark "MTEB(eng, v1)" --context corpus random',
        make=_table_2,
        published=_table_2_published,
    ),
    Exhibit(
        name="table_7",
        section="scores",
        title="MTEB's retrieval data sets, one by one",
        caption="nDCG@10 in points. The mean is given where all fifteen were run.",
        source="CDE paper, table 7",
        command='cde-eval mteb --model MODEL --benchmark "MTEB(eng, v1)" --types Retrieval',
        make=_table_7,
        published=_table_7_published,
    ),
)
