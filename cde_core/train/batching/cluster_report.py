"""What `cde-train cluster` prints: how large the clusters are, and what some of them hold.

    Clusters + Pairs ──▶ describe_clusters ──▶ text

Whether clusters mean anything is best seen by reading some: pairs of a cluster should be about one
matter, each a plausible wrong answer to its neighbours' queries.

Source: Morris and Rush (2024), table 4, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cde_core.train.batching.clusters import Clusters

if TYPE_CHECKING:
    from cde_core.train.data.pairs import Pairs

WIDTH = 100
PAIRS_SHOWN = 4
"""Of each sample cluster."""


def describe_clusters(clusters: Clusters, pairs: Pairs, *, samples: int = 8, seed: int = 0) -> str:
    """Sizes of all clusters, and some pairs of a few, as text of at most 100 columns.

    Args:
        clusters: Of the N pairs.
        pairs: What was clustered.
        samples: Clusters shown with some of their pairs.
        seed: Of the choice of clusters and pairs.
    """
    sizes = np.bincount(clusters.of, minlength=len(clusters.domain_of))
    parts = [_sizes(clusters, sizes, _names(clusters, pairs))]
    if not math.isnan(clusters.inertia):
        parts.append(
            f"inertia {clusters.inertia:.4f}: mean squared distance of q⊕d and d⊕q to the mean of "
            "their cluster"
        )
    rng = np.random.default_rng(seed)
    shown = rng.choice(len(sizes), min(samples, len(sizes)), replace=False)
    parts += [_sample(int(number), clusters, pairs, rng) for number in np.sort(shown)]
    return "\n\n".join(parts)


def _names(clusters: Clusters, pairs: Pairs) -> Sequence[str]:
    """Names of domains; none where a cluster mixes them, so that it is of no domain."""
    mixed = np.any(clusters.domain_of[clusters.of] != pairs.domain_of)
    return () if mixed else pairs.domains


def _sizes(clusters: Clusters, sizes: NDArray[np.int64], names: Sequence[str]) -> str:
    """A table with a line per domain that has a name, and one for all."""
    rows = [("domain", "pairs", "clusters", "smallest", "median", "largest")]
    for domain in np.unique(clusters.domain_of) if names else ():
        rows.append(_line(names[domain] or "(none)", sizes[clusters.domain_of == domain]))
    if len(rows) != 2:
        rows.append(_line("all", sizes))
    width = max(len(row[0]) for row in rows)
    return "\n".join(
        row[0].ljust(width) + "".join(cell.rjust(12) for cell in row[1:]) for row in rows
    )


def _line(name: str, sizes: NDArray[np.int64]) -> tuple[str, str, str, str, str, str]:
    if not len(sizes):
        return _cut(name, 40), "0", "0", "-", "-", "-"
    numbers = (sizes.sum(), len(sizes), sizes.min(), round(np.median(sizes)), sizes.max())
    pairs, count, smallest, median, largest = (f"{number:,}" for number in numbers)
    return _cut(name, 40), pairs, count, smallest, median, largest


def _sample(number: int, clusters: Clusters, pairs: Pairs, rng: np.random.Generator) -> str:
    """Some pairs of one cluster, query beside document."""
    members = np.flatnonzero(clusters.of == number)
    drawn = np.sort(rng.choice(members, min(PAIRS_SHOWN, len(members)), replace=False))
    names = _names(clusters, pairs)
    domain = names[clusters.domain_of[number]] if names else ""
    of_domain = f" of {_cut(domain, 40)}" if domain else ""
    head = f"cluster {number}{of_domain}, {len(members):,} pair{'s' * (len(members) > 1)}"
    left = (WIDTH - 5) * 2 // 5
    lines = [
        f"  {_cut(query, left).ljust(left)} │ {_cut(document, WIDTH - 5 - left)}"
        for query, document in zip(pairs.queries(drawn), pairs.documents(drawn), strict=True)
    ]
    return "\n".join([head, *lines])


def _cut(text: str, width: int) -> str:
    """A text on one line of at most `width` characters."""
    line = " ".join(text[: 20 * width].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
