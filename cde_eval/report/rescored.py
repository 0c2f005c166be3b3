"""The table of fast BEIR: nDCG@10 per set and their mean, with the candidates' recall beside it."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.tables import measure_name, runs, score_text
from cde_eval.results import RunRecord


def rescored_table(records: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per set, the unweighted mean below; a column per run, and before them the ceilings.

    Recall is that of the candidates at their depth, a column for each kind of list: what no
    rescoring can exceed. A score of several draws is their mean, with the standard deviation behind
    "±". The mean is given only for runs that have every set.

    Args:
        records: Records of rescored candidates; others are left out.
    """
    rescored = [record for record in records if record.candidates]
    frame = runs(rescored)
    if frame.empty:
        return pd.DataFrame()
    order = list(dict.fromkeys(frame["run"]))
    scores = frame.groupby(["task", "run", "draw"], sort=False)["score"].mean()
    cells = scores.groupby(["task", "run"], sort=False).agg(["mean", "std"])
    tasks = list(dict.fromkeys(record.task for record in rescored))
    table = pd.DataFrame("", index=[*tasks, "mean"], columns=[])
    for name, recalls in _recalls(rescored).items():
        table[name] = [f"{recalls[task]:.4f}" if task in recalls else "" for task in tasks] + [
            _mean(recalls.values()) if len(recalls) == len(tasks) else ""
        ]
    table[order] = ""
    for (task, run), (mean, spread) in zip(cells.index, cells.to_numpy(), strict=True):
        table.loc[task, run] = score_text(mean, spread)
    for run in order:
        means = cells["mean"].xs(run, level="run")
        table.loc["mean", run] = _mean(means) if len(means) == len(tasks) else ""
    measures = {measure_name(record.main_measure) for record in rescored}
    return table.rename_axis(", ".join(sorted(measures)))


def _recalls(records: list[RunRecord]) -> dict[str, dict[str, float]]:
    """By the name of its column, each kind of list's recall on each set."""
    kinds: dict[tuple[int, str], dict[str, float]] = {}
    for record in records:
        lists = record.candidates
        of_kind = kinds.setdefault((lists["depth"], lists["retriever"]), {})
        of_kind[record.task] = float(lists["recall"])
    several = len({retriever for _, retriever in kinds}) > 1
    return {
        f"candidates' Recall@{depth}{f', {retriever}' if several else ''}": recalls
        for (depth, retriever), recalls in sorted(kinds.items())
    }


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{sum(found) / len(found):.4f}"


def _rescored(results: Results) -> pd.DataFrame | None:
    table = rescored_table(results.records)
    return None if table.empty else table.rename_axis("set").reset_index()


EXHIBITS = (
    Exhibit(
        name="fast_beir",
        section="scores",
        title="Fast BEIR: models rank what a first retriever has found",
        caption="nDCG@10 where only each query's candidates are ranked, as in the paper's "
        "experiments. The candidates' recall is what no ranking of them can exceed.",
        source="CDE paper, section 10.9",
        command="cde-eval beir-small --model MODEL",
        make=_rescored,
    ),
)
