"""Tables 5 and 6 of the CDE paper: what it trains and is scored on, and what our runs are.

    published sizes + records with the scores of their queries ──▶ two tables

Source: Morris and Rush (2024), https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import pandas as pd

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.published import some, whole
from cde_eval.results import read_query_scores


def _table_5(results: Results) -> pd.DataFrame | None:
    published = results.published("cde_table_5")
    if published.empty:
        return None
    pairs = published["datapoints"].astype(int)
    total = pairs[published["dataset"] == "Total"].sum()
    return pd.DataFrame(
        {
            "data set": published["dataset"],
            "pairs": [f"{count:,}" for count in pairs],
            "share, as printed": published["share"],
            "share, computed": [f"{count / total:.2%}" for count in pairs],
        }
    )


def _table_5_note(results: Results) -> str:
    published = results.published("cde_table_5")
    if published.empty:
        return ""
    parts = published[published["dataset"] != "Total"]["datapoints"].astype(int)
    return f"The {len(parts)} rows add up to {parts.sum():,} pairs."


def _table_6_published(results: Results) -> pd.DataFrame | None:
    rows = [
        {
            "data set": row.dataset,
            "queries, paper": whole(row.queries),
            "documents, paper": whole(row.documents),
        }
        for row in results.published("cde_table_6").itertuples()
    ]
    return some(rows)


def _table_6(results: Results) -> pd.DataFrame | None:
    published = results.published("cde_table_6")
    names = {} if published.empty else published.set_index("task")["dataset"].to_dict()
    rows = [
        {
            "data set": names.get(task, task),
            "queries, ours": f"{queries:,}",
            "documents, ours": f"{documents:,}",
        }
        for task, (queries, documents) in sorted(_sizes(results).items())
    ]
    ours, shown = some(rows), _table_6_published(results)
    if ours is None or shown is None:
        return ours
    more = ours[~ours["data set"].isin(shown["data set"])]
    return pd.concat([shown.merge(ours, on="data set", how="left"), more]).fillna("")


def _sizes(results: Results) -> dict[str, tuple[int, int]]:
    """Judged queries and documents of each searched task.

    A search embeds every query and every document once, so what is not a query is a document.
    """
    found: dict[str, tuple[int, int]] = {}
    for path, record in results.records_by_path.items():
        if record.task in found or record.candidates or len(record.scores) > 1:
            continue
        scores = read_query_scores(path)
        if scores is not None:
            found[record.task] = (len(scores), record.texts - len(scores))
    return found


EXHIBITS = (
    Exhibit(
        name="table_5",
        section="clusters",
        title="What the paper is pretrained on",
        caption="Pairs of each data set, and its share of all.",
        source="CDE paper, table 5",
        command="cde-train data SOURCE",
        make=_table_5,
        note=_table_5_note,
    ),
    Exhibit(
        name="table_6",
        section="scores",
        title="What is searched",
        caption="Queries and documents of the paper's BEIR data sets, and of every data set that a "
        "run here has searched.",
        source="CDE paper, table 6",
        command="cde-eval mteb --model bm25 --tasks NFCorpus SciFact ArguAna SCIDOCS TRECCOVID "
        "QuoraRetrieval NQ MSMARCO",
        make=_table_6,
        published=_table_6_published,
    ),
)
