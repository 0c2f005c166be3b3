"""How near the neighbours of a training pair are: might they answer its query as well?

    some pairs ──▶ similarity with all pairs ──▶ the nearest, to be read
                └▶ query with all documents  ──▶ how many are at least as near as its answer

Before batches are made of neighbours, it should be known what neighbours are. In a large corpus
they are so near that many answer each other's queries, so a batch of them has false negatives, and
those must be left out (equation 4).

Source: Morris and Rush (2024), section 10.2 and table 3, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cde_core.errors import ConfigError
from cde_eval.probes.pairs import JudgedPairs
from cde_eval.probes.table import ProbeTable
from cde_eval.progress import progress_bar
from cde_eval.vectors import Rows

PROBE = "neighbours"
CHARACTERS = 200
"""Of each text that is kept to be read."""
QUERIES_AT_ONCE = 256


def measure_neighbours(
    judged: JudgedPairs,
    output: Path,
    *,
    queries: int = 1000,
    shown: int = 3,
    nearest: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Neighbours of some pairs, and how many documents are as near to each query as its own.

    Args:
        judged: N pairs and a surrogate; the work grows with `queries` times N.
        output: Results folder.
        queries: Pairs drawn.
        shown: How many of these are kept with the texts of their neighbours.
        nearest: Neighbours of each.
        seed: Of the draw.

    Returns:
        A row per drawn pair, `rank` 0: `pair`, `own` (cosine of query and answer), `as_near` (other
        documents at least as near), `nearest` (the highest cosine of those that are no answer by
        their text); and of each that is shown a row per neighbour, by `rank`, with `similarity`.

    Raises:
        ConfigError: If there are fewer than two pairs.
    """
    count = len(judged.pairs)
    if count < 2:
        raise ConfigError(f"There is only {count} pair, which has no neighbours; name more.")
    drawn = np.random.default_rng(seed).permutation(count)[: min(queries, count)]
    about = {**judged.about, "queries": queries, "shown": shown, "nearest": nearest, "seed": seed}
    table = ProbeTable(output, PROBE, about, cell=["block"])
    with progress_bar(len(drawn), "queries") as done:
        for start in range(0, len(drawn), QUERIES_AT_ONCE):
            rows = drawn[start : start + QUERIES_AT_ONCE]
            if not table.has(block=start):
                reading = rows[: max(0, shown - start)]
                table.add(
                    [*_counts(judged, rows, len(reading)), *_nearest(judged, reading, nearest)],
                    block=start,
                )
            done(len(rows))
    return table.frame


def _counts(judged: JudgedPairs, rows: Rows, shown: int) -> Iterator[dict[str, Any]]:
    """How many documents are as near to a query as its own; the first `shown` with their texts."""
    everything = np.arange(len(judged.pairs))
    cosines = judged.vectors.queries[rows] @ judged.vectors.documents.T
    own = cosines[np.arange(len(rows)), rows]
    negative = ~judged.no_negatives(rows, everything)
    as_near = (negative & (cosines >= own[:, None])).sum(axis=1)
    nearest = np.where(negative, cosines, -np.inf).max(axis=1)
    texts = zip(judged.pairs.queries(rows), judged.pairs.documents(rows), strict=True)
    for i, (query, document) in enumerate(texts):
        yield {
            "rank": 0,
            "pair": int(rows[i]),
            "similarity": float("nan"),
            "own": round(float(own[i]), 4),
            "as_near": int(as_near[i]),
            "nearest": round(float(nearest[i]), 4),
            "query": shortened(query) if i < shown else "",
            "document": shortened(document) if i < shown else "",
        }


def _nearest(judged: JudgedPairs, rows: Rows, nearest: int) -> Iterator[dict[str, Any]]:
    """The neighbours of some pairs, nearest first, as equation 2 has it."""
    vectors = judged.vectors
    for row in rows:
        similarity = (
            vectors.documents @ vectors.queries[row] + vectors.queries @ vectors.documents[row]
        ) / 2
        similarity[row] = -np.inf
        found = np.argsort(-similarity, kind="stable")[: min(nearest, len(similarity) - 1)]
        texts = zip(judged.pairs.queries(found), judged.pairs.documents(found), strict=True)
        for rank, (query, document) in enumerate(texts, 1):
            yield {
                "rank": rank,
                "pair": int(row),
                "similarity": round(float(similarity[found[rank - 1]]), 4),
                "query": shortened(query),
                "document": shortened(document),
            }


def shortened(text: str) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text[: 20 * CHARACTERS].split())
    return line if len(line) <= CHARACTERS else line[: CHARACTERS - 1].rstrip() + "…"
