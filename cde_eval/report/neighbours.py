"""Pairs to be read: the neighbours of a training pair, and what is in a cluster.

Source: Morris and Rush (2024), tables 3 and 4, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import pandas as pd
from scipy import stats

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.probe_names import CLUSTERS, NEIGHBOURS
from cde_eval.report.probe_rows import newest_on_most_pairs


def neighbour_table(frame: pd.DataFrame, pair: int) -> pd.DataFrame:
    """One pair and its neighbours, nearest first.

    Args:
        frame: Rows of the probe `neighbours`, of one table.
        pair: Number of the pair.
    """
    rows = frame[frame["pair"] == pair].sort_values("rank")
    return pd.DataFrame(
        {
            "rank": ["itself" if rank == 0 else str(rank) for rank in rows["rank"]],
            "query": rows["query"].fillna(""),
            "document": rows["document"].fillna(""),
            "similarity": [
                f"{own if rank == 0 else similarity:.2f}"
                for rank, own, similarity in zip(
                    rows["rank"], rows["own"], rows["similarity"], strict=True
                )
            ],
        }
    ).reset_index(drop=True)


def counts_in_words(frame: pd.DataFrame, pairs: int) -> str:
    """How many queries have another document that is as near as their own.

    Args:
        frame: Rows of the probe `neighbours`, of one table.
        pairs: Of how many pairs they were drawn.
    """
    asked = frame[frame["rank"] == 0]
    some = int((asked["as_near"] > 0).sum())
    interval = stats.binomtest(some, len(asked)).proportion_ci(0.95, method="wilson")
    return (
        f"Of {len(asked):,} queries drawn from {pairs:,} pairs, {some / len(asked):.1%} "
        f"[{interval.low:.1%}, {interval.high:.1%}] have another document that the surrogate puts "
        f"at least as near as their own answer, in the mean {asked['as_near'].mean():.1f} of them. "
        f"The nearest other document has a mean cosine of {asked['nearest'].mean():.2f}, the "
        f"answer of {asked['own'].mean():.2f}."
    )


def cluster_table(frame: pd.DataFrame, number: int) -> pd.DataFrame:
    """Pairs of one cluster.

    Args:
        frame: Rows of the probe `clusters`, of one table.
        number: Which of the clusters that were drawn, from 0.
    """
    rows = frame.loc[frame["drawn"] == number, ["query", "document"]]
    return rows.fillna("").reset_index(drop=True)


def cluster_in_words(frame: pd.DataFrame, number: int) -> str:
    """Where a cluster is from, how large it is, and how alike its pairs are."""
    row = frame[frame["drawn"] == number].iloc[0]
    domain = f" of {row['domain']}" if isinstance(row["domain"], str) and row["domain"] else ""
    return (
        f"{(frame['drawn'] == number).sum()} of the {int(row['members'])} pairs of a cluster"
        f"{domain}: mean cosine of a query with the others' documents {row['within']:.2f}, "
        f"against {row['outside']:.2f} among as many pairs by chance."
    )


def _table_3(results: Results) -> pd.DataFrame | None:
    frame = newest_on_most_pairs(results.probe(NEIGHBOURS))
    with_neighbours = frame.loc[frame["rank"] == 1, "pair"] if len(frame) else frame
    return neighbour_table(frame, int(with_neighbours.iloc[0])) if len(with_neighbours) else None


def _note_3(results: Results) -> str:
    frame = newest_on_most_pairs(results.probe(NEIGHBOURS))
    if frame.empty:
        return ""
    return f"{counts_in_words(frame, int(frame['pairs'].iloc[0]))} {_made_with(frame)}"


def _table_4(results: Results) -> pd.DataFrame | None:
    frame = newest_on_most_pairs(results.probe(CLUSTERS))
    return cluster_table(frame, 0) if len(frame) else None


def _note_4(results: Results) -> str:
    frame = newest_on_most_pairs(results.probe(CLUSTERS))
    return f"{cluster_in_words(frame, 0)} {_made_with(frame)}" if len(frame) else ""


def _made_with(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return f"Pairs: {first['sources']}; surrogate: {first['model']}."


EXHIBITS = (
    Exhibit(
        name="table-3-neighbours",
        section="clusters",
        title="The neighbours of a training pair may answer its query, too",
        caption="A pair drawn by chance and its nearest neighbours among all pairs, the query of "
        "each compared with the document of the other. For the pair itself the last column is the "
        "cosine of query and answer.",
        source="CDE paper, table 3",
        command="cde-eval neighbours --pairs docs",
        make=_table_3,
        note=_note_3,
    ),
    Exhibit(
        name="table-4-cluster",
        section="clusters",
        title="What is in a cluster",
        caption="Pairs of one cluster that k-means finds in the training pairs; cluster and pairs "
        "are drawn by chance.",
        source="CDE paper, table 4",
        command="cde-eval clusters --pairs docs --size 256",
        make=_table_4,
        note=_note_4,
    ),
)
