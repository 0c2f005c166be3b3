"""What is in a cluster: some pairs of a few clusters, and how alike pairs of a cluster are.

    pairs, surrogate ──▶ clusters ──▶ a few by chance ──▶ their pairs, to be read
                                                     └──▶ mean similarity within

Whether clusters mean anything is best seen by reading some: pairs of a cluster should be about one
matter, or about a few.

Source: Morris and Rush (2024), section 10.6 and table 4, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cde_core.errors import ConfigError
from cde_core.train.preparation import clusters_of
from cde_eval.probes.difficulty import difficulty
from cde_eval.probes.neighbours import shortened
from cde_eval.probes.pairs import JudgedPairs
from cde_eval.probes.table import ProbeTable
from cde_eval.vectors import Rows

PROBE = "clusters"
MOST_COMPARED = 512
"""Pairs of a cluster that are compared with each other."""


def measure_clusters(
    judged: JudgedPairs,
    output: Path,
    *,
    size: int = 256,
    shown: int = 3,
    samples: int = 16,
    seed: int = 0,
    say: Callable[[str], object] = lambda line: None,
) -> pd.DataFrame:
    """Some pairs of a few clusters.

    Args:
        judged: N pairs and a surrogate.
        output: Results folder.
        size: Pairs per cluster wanted.
        shown: Clusters that are drawn, each with a chance that grows with its size.
        samples: Pairs of each.
        seed: Of the draws.
        say: Told how many clusters there are.

    Returns:
        A row per pair: `cluster`, `domain`, `members`, `within` and `outside` (mean cosine of a
        query with documents of others in its cluster, and of as many pairs by chance), texts.
    """
    about = {**judged.about, "size": size, "shown": shown, "samples": samples, "seed": seed}
    table = ProbeTable(output, PROBE, about, cell=["drawn"])
    if all(table.has(drawn=number) for number in range(shown)):
        return table.frame
    recipe = judged.recipe
    recipe = dataclasses.replace(recipe, clusters=dataclasses.replace(recipe.clusters, size=size))
    of = clusters_of(recipe, judged.pairs, say).of
    rng = np.random.default_rng(seed)
    clusters = dict.fromkeys(of[rng.permutation(len(of))].tolist())  # the larger the likelier
    for number, cluster in enumerate(list(clusters)[:shown]):
        members = np.flatnonzero(of == cluster)
        rows = _rows(judged, members, samples, np.random.default_rng((seed, cluster)))
        if not table.has(drawn=number):
            table.add([{"cluster": cluster, **row} for row in rows], drawn=number)
    return table.frame


def _rows(
    judged: JudgedPairs, members: Rows, samples: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    pairs = judged.pairs
    compared = rng.permutation(members)[:MOST_COMPARED]
    by_chance = rng.permutation(len(pairs))[: len(compared)]
    about = {
        "domain": pairs.domains[pairs.domain_of[members[0]]],
        "members": len(members),
        "within": _similarity(judged, compared),
        "outside": _similarity(judged, by_chance),
    }
    drawn = np.sort(compared[:samples])
    texts = zip(pairs.queries(drawn), pairs.documents(drawn), strict=True)
    return [
        {**about, "query": shortened(query), "document": shortened(document)}
        for query, document in texts
    ]


def _similarity(judged: JudgedPairs, rows: Rows) -> float:
    """Mean cosine of a query with the documents of the others; NaN where there are none."""
    try:
        return difficulty(judged, [rows]).similarity
    except ConfigError:
        return float("nan")
