"""Our scores on the tasks of MTEB(eng, v1), as its leaderboard counts them.

    records ──▶ our_scores ──▶ a row per run, a column per task ──▶ tables 2 and 7, the leaderboard

The leaderboard shows one split and one subset of each task, the English one, and one number for
the twelve forums of CQADupStack. `reports/published/mteb_eng_v1_tasks.csv` says which.
"""

from __future__ import annotations

import pandas as pd

from cde_eval.report.exhibits import Results
from cde_eval.report.tables import runs, usual

TYPES = ("Classification", "Clustering", "PairClassification", "Reranking", "Retrieval", "STS",
         "Summarization")  # fmt: skip

FORUMS = ("Android", "English", "Gaming", "Gis", "Mathematica", "Physics", "Programmers", "Stats",
          "Tex", "Unix", "Webmasters", "Wordpress")  # fmt: skip

WHOLE = "CQADupstackRetrieval"


def benchmark_tasks(results: Results) -> pd.DataFrame:
    """The tasks, by name: type, measure, split, subset, data_revision; empty where unknown."""
    tasks = results.published("mteb_eng_v1_tasks")
    return tasks if tasks.empty else tasks.set_index("task")


def our_scores(results: Results) -> pd.DataFrame:
    """Mean over draws of the main score, from 0 to 1.

    Searches of candidates are left out, since a full search is what the leaderboard shows.

    Returns:
        A row per run, by (run, model, policy), and a column per task that some run has.
    """
    tasks = benchmark_tasks(results)
    frame = runs(usual(results.records))
    if frame.empty or tasks.empty:
        return pd.DataFrame()
    forums = {f"CQADupstack{forum}Retrieval": WHOLE for forum in FORUMS}
    shown = frame["task"].map(lambda task: forums.get(task, task))
    known = shown.isin(tasks.index)
    frame, shown = frame[known], shown[known]
    place = tasks.loc[shown, ["split", "subset"]].to_numpy()
    frame = frame[(frame[["split", "subset"]].to_numpy() == place).all(axis=1)]
    if frame.empty:
        return pd.DataFrame()
    order = list(dict.fromkeys(zip(frame["run"], frame["model"], frame["policy"], strict=True)))
    wide = frame.pivot_table(
        index=["run", "model", "policy"], columns="task", values="score", aggfunc="mean"
    ).loc[order]
    parts = [forum for forum in forums if forum in wide]
    if len(parts) == len(FORUMS):
        whole = wide[parts].mean(axis=1, skipna=False)
        wide[WHOLE] = wide[WHOLE].fillna(whole) if WHOLE in wide else whole
    return wide[[task for task in tasks.index if task in wide]].dropna(how="all")


def other_data(results: Results) -> list[str]:
    """Tasks that were run on another revision of their data than most published scores name."""
    revisions = benchmark_tasks(results).get("data_revision", pd.Series(dtype=str))
    return sorted(
        {
            record.task
            for record in results.records
            if record.task in revisions and record.task_revision != revisions[record.task]
        }
    )
