"""Tables 1 and 2 of "Dwell in the Beginning": search of long documents, our rows below.

    published numbers + records of the task msmarco-doc + the probe of moved passages ──▶ two tables

The documents of MS MARCO are a BEIR folder of that name: whole web pages, not mteb's passages. The
probe searches other documents, of which every row says the name: where nothing is moved, it is a
search of long documents too.

Source: Coelho et al. (2024), https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import re

import pandas as pd

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.position.places import asked, complete, labels
from cde_eval.report.probe_names import MOVED, UNCHANGED
from cde_eval.report.probe_rows import context_label
from cde_eval.report.published import OURS, PAPER, TICKS, beneath, printed, some
from cde_eval.report.tables import runs, usual

TASK = "msmarco-doc"

STAGE = re.compile(r"2k-t5-([123])")
"""In the names of models that `training/*-2k-t5-STAGE-*.yaml` make: how far they have come."""

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
    rows = [{"model": run, "size": "", **found} for run, found in _ours(results)]
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
    rows = []
    for run, found in _ours(results):
        stage = STAGE.search(run)
        if stage:
            steps = {
                "language model pretraining": TICKS["yes"],
                "contrastive pretraining": TICKS["yes" if int(stage[1]) > 1 else "no"],
                "fine-tuning": f"{TICKS['yes'] if int(stage[1]) > 2 else ''} {run}".strip(),
            }
            rows.append({**steps, **found})
    return beneath(_dwell_2_published(results), some(rows))


def _ours(results: Results) -> list[tuple[str, dict[str, str]]]:
    """Every run of ours: what it is called, and its two measures."""
    return [*_long_runs(results), *_unmoved(results)]


def _long_runs(results: Results) -> list[tuple[str, dict[str, str]]]:
    """Runs on those documents, each with the mean of its draws."""
    records = [record for record in usual(results.records) if record.task == TASK]
    if not records:
        return []
    measures = [score.measures for record in records for score in record.scores]
    return [
        (str(run), _shown(pd.DataFrame([measures[number] for number in rows.index]), OURS))
        for run, rows in runs(records).groupby("run", sort=False)
    ]


def _unmoved(results: Results) -> list[tuple[str, dict[str, str]]]:
    """What the probe of moved passages finds where they stand: mean over queries and draws."""
    frame = complete(asked(results, MOVED))
    if frame.empty:
        return []
    frame = frame[frame["place"] == UNCHANGED].assign(label=labels)
    keys = ["data", "label", "context"]
    contexts = frame.groupby(["data", "label"])["context"].transform("nunique")
    return [
        (
            f"{label}, {context_label(context)}" if contexts[rows.index[0]] > 1 else label,
            _shown(rows, f"{OURS}, {data}"),
        )
        for (data, label, context), rows in frame.groupby(keys, sort=False)
    ]


def _shown(rows: pd.DataFrame, source: str) -> dict[str, str]:
    means = rows.reindex(columns=["mrr_at_100", "recall_at_100"]).mean()
    return {
        "MRR@100": printed(means.iloc[0], 3),
        "Recall@100": printed(means.iloc[1], 3),
        "from": source,
    }


EXHIBITS = (
    Exhibit(
        name="dwell_table_1",
        section="position",
        title="Search of long documents",
        caption="MRR@100 and Recall@100 on the documents of MS MARCO, as published by Coelho et "
        "al., with runs of ours below: on the same documents, or on those that a row names, whose "
        "numbers are no match for the published ones.",
        source="Dwell paper, table 1",
        command=COMMAND,
        make=_dwell_1,
        published=_dwell_1_published,
    ),
    Exhibit(
        name="dwell_table_2",
        section="position",
        title="What each step of training is worth to long documents",
        caption="The paper's T5 with and without its pretraining tasks. Below are models that the "
        "recipes *-2k-t5-* make, as far as their names tell, on the documents that a row names.",
        source="Dwell paper, table 2",
        command=COMMAND,
        make=_dwell_2,
        published=_dwell_2_published,
    ),
)
