"""What mteb computes for every query of a search task, and then only averages.

    task ──listen──▶ task.evaluate ──▶ scores of each query ──▶ TASK.queries.csv

Whether one run is better than another cannot be told from two means: it takes the scores of each
query under both. mteb hands them to a hook, `task_specific_scores`, on their way to the mean; they
are taken there, so that nothing is computed twice and their mean is the score that mteb reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from mteb.abstasks import AbsTaskRetrieval

from cde_eval.results import write_atomically

CUTS = (10, 100, 1000)
"""Ranks at which measures are kept, besides that of the task's main measure."""

_NAMES = {"ndcg_cut": "ndcg", "map_cut": "map", "recall": "recall"}


class QueryScores:
    """Scores of each query, as an evaluation goes on."""

    def __init__(self) -> None:
        self._parts: list[pd.DataFrame] = []

    def listen(self, task: AbsTaskRetrieval, *, is_part: bool = False) -> None:
        """Keep the scores of each query that this task object computes from now on.

        Args:
            task: A search task.
            is_part: It is one of several tasks that make up another; its name then stands before
                its subset, since the ids of its queries are its own.
        """
        pass_on = task.task_specific_scores
        main = task.metadata.main_score

        def keep(scores: Any, qrels: Any, results: Any, hf_split: str, hf_subset: str) -> Any:
            subset = f"{task.metadata.name}/{hf_subset}" if is_part else hf_subset
            self._parts.append(_table(scores, main, hf_split, subset))
            return pass_on(scores, qrels, results, hf_split=hf_split, hf_subset=hf_subset)

        task.task_specific_scores = keep  # type: ignore[method-assign]

    def write(self, path: Path) -> None:
        """Write what was kept; nothing where no search task was evaluated."""
        if self._parts:
            table = pd.concat(self._parts)
            write_atomically(path, table.to_csv(index=False, float_format="%.6g"))


def _table(
    scores: Mapping[str, Mapping[str, float]], main: str, split: str, subset: str
) -> pd.DataFrame:
    """One row per query, a column per measure that is kept."""
    table = pd.DataFrame.from_dict(dict(scores), orient="index")
    names = {column: _name(str(column)) for column in table.columns}
    kept = [c for c in table.columns if names[c] and (_cut(names[c]) in CUTS or names[c] == main)]
    table = table[kept].rename(columns=names).sort_index(axis=1, key=lambda c: c.map(_order))
    for position, (column, value) in enumerate((("split", split), ("subset", subset))):
        table.insert(position, column, value)
    table.insert(2, "query", table.index.astype(str))
    return table.sort_values("query")


def _name(measure: str) -> str:
    """Mteb's name of a measure that trec_eval names "ndcg_cut_10"; "" of those not kept."""
    found = re.fullmatch(r"(ndcg_cut|map_cut|recall)_(\d+)", measure)
    return f"{_NAMES[found[1]]}_at_{found[2]}" if found else ""


def _cut(name: str) -> int:
    return int(name.rpartition("_")[2])


def _order(name: str) -> tuple[int, int]:
    return list(_NAMES.values()).index(name.partition("_")[0]), _cut(name)
