"""What a set of pairs looks like: how many of which domain, how long, how often repeated.

    Pairs ──▶ summarise ──▶ table, a row per domain ──▶ as_text

Read before a long run, it shows what an hour of training would not: a domain of twelve pairs, which
fills no batch; documents longer than the model reads; one document under a thousand queries, each
of which then counts the others' answer, its own, as wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cde_core.train.data.pairs import Pairs

if TYPE_CHECKING:
    from pandas import DataFrame

TOTAL = "all domains"

HEADERS = {
    "pairs": ("", "pairs"),
    "share": ("", "share"),
    "with_negatives": ("negatives", "any"),
    "mean_negatives": ("negatives", "mean"),
    "query_median": ("query length", "median"),
    "query_95": ("query length", "95 %"),
    "document_median": ("document length", "median"),
    "document_95": ("document length", "95 %"),
    "duplicates": ("documents", "repeated"),
    "scored": ("with", "score"),
    "labelled": ("with", "label"),
    "taught": ("with", "teacher"),
}
RARE = ("scored", "labelled", "taught")
"""Columns that are shown where any pair has what they count."""


def summarise(pairs: Pairs, *, sample: int = 20_000, seed: int = 0) -> DataFrame:
    """Describe pairs by domain, the largest first, and all of them in the last row.

    Counts are of all pairs. Lengths and repetitions need texts, so they are of at most `sample`
    pairs of a domain, drawn without replacement; the last row's are of a sample of its own.

    Args:
        pairs: N pairs.
        sample: Pairs whose texts are read, per row.
        seed: Of the draw.

    Returns:
        One row per domain, with the columns

        - pairs, and share (of all pairs, 0 to 1)
        - with_negatives (pairs that have any), and mean_negatives (over all pairs of the row)
        - query_median, query_95, document_median, document_95: median and 95th percentile of
          lengths in characters
        - duplicates: share of documents that came before in the same sample
        - scored, labelled, taught: pairs with a score, a label, a teacher's scores
    """
    from pandas import DataFrame

    order = np.argsort(pairs.domain_of, kind="stable")
    ends = np.cumsum(np.bincount(pairs.domain_of, minlength=len(pairs.domains)))
    rows_of = dict(zip(pairs.domains, np.split(order, ends[:-1]), strict=False))
    groups = dict(sorted(rows_of.items(), key=lambda group: (-len(group[1]), group[0])))
    described = [_described(pairs, rows, sample, seed) for rows in groups.values()]
    described.append(_described(pairs, np.arange(len(pairs)), sample, seed))
    return DataFrame(described, index=[*groups, TOTAL]).rename_axis("domain")


def as_text(summary: DataFrame) -> str:
    """The table of `summarise` for people: shares in per cent, lengths in characters."""
    from pandas import DataFrame, MultiIndex

    columns = [column for column in HEADERS if column not in RARE or summary[column].any()]
    cells = {column: [_shown(column, value) for value in summary[column]] for column in columns}
    table = DataFrame(cells, index=list(summary.index))
    table.columns = MultiIndex.from_tuples([HEADERS[column] for column in columns])
    return str(table.to_string())


def _shown(column: str, value: float) -> str:
    if column in ("share", "duplicates"):
        return f"{value:.1%}"
    return f"{value:.2f}" if column == "mean_negatives" else f"{value:,.0f}"


def _described(
    pairs: Pairs, rows: NDArray[np.int64], sample: int, seed: int
) -> dict[str, float | int]:
    negatives = pairs.first_negative[rows + 1] - pairs.first_negative[rows]
    drawn = _drawn(rows, sample, seed)
    documents = pairs.documents(drawn)
    query_median, query_95 = _lengths(pairs.queries(drawn))
    document_median, document_95 = _lengths(documents)
    return {
        "pairs": len(rows),
        "share": len(rows) / max(1, len(pairs)),
        "with_negatives": int(np.count_nonzero(negatives)),
        "mean_negatives": float(negatives.mean()) if len(rows) else float("nan"),
        "query_median": query_median,
        "query_95": query_95,
        "document_median": document_median,
        "document_95": document_95,
        "duplicates": 1 - len(set(documents)) / len(documents) if documents else float("nan"),
        "scored": int(np.count_nonzero(pairs.scored[rows])),
        "labelled": int(np.count_nonzero(pairs.labelled[rows])),
        "taught": int(np.count_nonzero(pairs.taught[rows])),
    }


def _drawn(rows: NDArray[np.int64], most: int, seed: int) -> NDArray[np.int64]:
    if len(rows) <= most:
        return rows
    rng = np.random.default_rng(seed)
    return np.sort(rows[rng.choice(len(rows), most, replace=False)])


def _lengths(texts: list[str]) -> tuple[float, float]:
    if not texts:
        return float("nan"), float("nan")
    median, high = np.percentile([len(text) for text in texts], [50, 95])
    return float(median), float(high)
