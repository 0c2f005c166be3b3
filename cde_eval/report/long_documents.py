"""Tables 1 and 2 of "Dwell in the Beginning": search of long documents, our rows below.

    published numbers + records of the task msmarco-doc ──▶ two tables

The documents of MS MARCO are a BEIR folder of that name: whole web pages, not mteb's passages.

Source: Coelho et al. (2024), https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.published import OURS, PAPER, TICKS, beneath, printed, some
from cde_eval.report.tables import runs, usual

TASK = "msmarco-doc"
COMMAND = "cde-eval mteb --model MODEL --data msmarco-doc --context corpus random none"


def _dwell_1_published(results: Results) -> pd.DataFrame | None:
    rows = [
        {
            "model": row.model,
            "size": row.size_,
            "MRR@100": printed(row.mrr_at_100, 3),
            "Recall@100": printed(row.recall_at_100, 3) or "–",
            "from": PAPER,
        }
        for row in results.published("dwell_table_1").rename(columns={"size": "size_"}).itertuples()
    ]
    return some(rows)


def _dwell_1(results: Results) -> pd.DataFrame | None:
    rows = [{"model": run, "size": "", **found, "from": OURS} for run, found in _long_runs(results)]
    return beneath(_dwell_1_published(results), some(rows))


def _dwell_2_published(results: Results) -> pd.DataFrame | None:
    rows = [
        {
            "language model pretraining": TICKS[row.lm_pretraining],
            "contrastive pretraining": TICKS[row.contrastive_pretraining],
            "fine-tuning": row.fine_tuning,
            "MRR@100": printed(row.mrr_at_100, 3),
            "Recall@100": printed(row.recall_at_100, 3),
            "from": PAPER,
        }
        for row in results.published("dwell_table_2").itertuples()
    ]
    return some(rows)


def _dwell_2(results: Results) -> pd.DataFrame | None:
    rows = [{"fine-tuning": run, **found, "from": OURS} for run, found in _long_runs(results)]
    return beneath(_dwell_2_published(results), some(rows))


def _long_runs(results: Results) -> Iterator[tuple[str, dict[str, str]]]:
    """Runs on those documents, each with the mean of its draws."""
    records = [record for record in usual(results.records) if record.task == TASK]
    if not records:
        return
    measures = [score.measures for record in records for score in record.scores]
    frame = runs(records)
    for run, rows in frame.groupby("run", sort=False):
        mine = pd.DataFrame([measures[number] for number in rows.index])
        means = mine.reindex(columns=["mrr_at_100", "recall_at_100"]).mean()
        yield (
            str(run),
            {"MRR@100": printed(means.iloc[0], 3), "Recall@100": printed(means.iloc[1], 3)},
        )


EXHIBITS = (
    Exhibit(
        name="dwell_table_1",
        section="position",
        title="Search of long documents",
        caption="MRR@100 and Recall@100 on the documents of MS MARCO, as published by Coelho et "
        "al., with runs of ours on the same documents below.",
        source="Dwell paper, table 1",
        command=COMMAND,
        make=_dwell_1,
        published=_dwell_1_published,
    ),
    Exhibit(
        name="dwell_table_2",
        section="position",
        title="What each step of training is worth to long documents",
        caption="The paper's T5 with and without its pretraining tasks. Runs of ours stand below, "
        "as they came; no step of their training is known here.",
        source="Dwell paper, table 2",
        command=COMMAND,
        make=_dwell_2,
        published=_dwell_2_published,
    ),
)
