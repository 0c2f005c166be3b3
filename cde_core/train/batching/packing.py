"""Batches of equal size from clusters of any size, anew in every epoch.

    Clusters ──▶ shuffle within ──▶ full batches ───────────────┐
                       └──▶ what remains ──▶ line up ──▶ cut ───┴──▶ permute ──▶ Packing

A cluster larger than a batch is split: it gives as many full batches as it holds. What remains of
it, and clusters smaller than a batch, stand in a line and are cut into batches. The line is random,
or a greedy travelling salesman's: from a random cluster always on to the one whose centroid is
nearest among those not yet visited, so that a mixed batch is made of neighbours.

No batch crosses domains unless asked, and what does not fill a batch is left out of this epoch;
it is another remainder in the next, because members and lines are shuffled anew.

The walk compares all clusters of a line with each other, which is quadratic. Where there are more
than 4,096 they are dealt at random into groups of at most so many, and each group is walked by
itself, so that time grows with the number of clusters and no faster.

Source: Morris and Rush (2024), sections 4.1 and 10 ("TSP Packing"), https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cde_core.errors import ConfigError, did_you_mean
from cde_core.train.batching.clusters import Clusters

Order = Literal["random", "nearest"]
AcrossDomains = Literal["never", "leftovers", "always"]
Rows = NDArray[np.int64]

WALKED_TOGETHER = 4_096
"""Clusters among which the walk looks for the nearest: 64 MiB of distances."""


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """One epoch."""

    batches: Rows
    """Pairs of each batch (n, B); no pair twice."""

    left_out: Rows
    """Pairs that filled no batch."""


def pack(
    clusters: Clusters,
    *,
    batch_size: int,
    order: Order,
    across_domains: AcrossDomains = "never",
    seed: int,
    epoch: int,
) -> Packing:
    """Pack pairs into batches: every epoch has as many, and the same seed and epoch the same ones.

    Args:
        clusters: Of N pairs.
        batch_size: Pairs per batch (B).
        order: How clusters are lined up.
        across_domains: "never": every batch is of one domain. "leftovers": what is left of the
            domains is lined up too and makes mixed batches. "always": the clusters of all domains
            stand in one line.
        seed: Of the run.
        epoch: Number of this pass over the pairs.

    Raises:
        ConfigError: If the batch size is not positive, or a choice is unknown.

    Source: Morris and Rush (2024), section 4.1, "Packing".
    """
    _require_choice("packing", order, get_args(Order))
    _require_choice("across_domains", across_domains, get_args(AcrossDomains))
    if batch_size < 1:
        raise ConfigError(f"batches.size is {batch_size}; it must be at least 1.")
    rng = np.random.default_rng((seed, epoch))
    rows, starts = _shuffled_within(clusters, rng)
    sizes = np.diff(starts)
    rest = sizes % batch_size  # of each cluster, after the batches that it fills by itself
    lines, left = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for line in _lines(clusters, np.flatnonzero(rest), across_domains):
        ordered = line[_line_up(clusters.centroids[line], order, rng)]
        waiting = rows[_ranges(starts[ordered + 1] - rest[ordered], rest[ordered])]
        filled = len(waiting) - len(waiting) % batch_size
        lines.append(waiting[:filled])
        left.append(waiting[filled:])
    if across_domains == "leftovers":
        waiting = _leftovers(clusters, np.concatenate(left), order, rng)
        filled = len(waiting) - len(waiting) % batch_size
        lines.append(waiting[:filled])
        left = [waiting[filled:]]
    lined_up = np.concatenate(lines)
    begins = np.concatenate(
        (
            _ranges(starts[:-1], sizes - rest, step=batch_size),
            np.arange(len(rows), len(rows) + len(lined_up), batch_size),
        )
    )
    cut = _cut(np.concatenate((rows, lined_up)), rng.permutation(begins), batch_size)
    return Packing(batches=cut, left_out=np.concatenate(left))


def greedy_walk(points: NDArray[np.float32]) -> Rows:
    """Order in which the first point (k, d), then always the nearest unvisited one, is visited."""
    squares = np.square(points).sum(axis=1)
    distances = squares - 2 * (points @ points.T)  # squared, less the square of the row's own point
    visited = np.zeros(len(points), np.float32)  # infinite for those
    order, here = np.empty(len(points), np.int64), 0
    for step in range(len(points)):
        order[step] = here
        visited[here] = np.inf
        here = int(np.argmin(distances[here] + visited))
    return order


def _shuffled_within(clusters: Clusters, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows of all pairs, cluster by cluster and shuffled in each, and where each cluster starts."""
    rows = _by_number(clusters.of, len(clusters.domain_of))
    starts = np.zeros(len(clusters.domain_of) + 1, np.int64)
    np.cumsum(np.bincount(clusters.of, minlength=len(starts) - 1), out=starts[1:])
    for start, end in pairwise(starts.tolist()):
        rng.shuffle(rows[start:end])
    return rows, starts


def _by_number(of: NDArray[np.int32], numbers: int) -> Rows:
    """Rows sorted by their number, stably.

    numpy sorts 16 bits in linear time, so larger numbers are sorted by their upper half first, and
    then each heap by its lower half, which reads memory from front to back.
    """
    if numbers <= 2**16:
        rows: Rows = np.argsort(of.astype(np.uint16), kind="stable")
        return rows
    upper = (of >> 16).astype(np.uint16)
    heaps = np.split(np.argsort(upper, kind="stable"), np.cumsum(np.bincount(upper))[:-1])
    return np.concatenate([heap[_by_number(of[heap] & 0xFFFF, 2**16)] for heap in heaps])


def _ranges(starts: Rows, lengths: Rows, *, step: int = 1) -> Rows:
    """Every `step`-th of starts[0] … starts[0] + lengths[0] - 1, then of the next, and so on."""
    steps = lengths // step
    ends = np.cumsum(steps)
    total = int(ends[-1]) if len(ends) else 0
    places: Rows = np.arange(total) * step + np.repeat(starts - (ends - steps) * step, steps)
    return places


def _cut(rows: Rows, begins: Rows, length: int) -> Rows:
    """Pieces of equal length, which begin where told (n, length); copied once and never indexed."""
    if not len(begins):
        return np.empty((0, length), np.int64)
    pieces: Rows = sliding_window_view(rows, length)[begins]
    return pieces


def _lines(clusters: Clusters, numbers: Rows, across_domains: AcrossDomains) -> Sequence[Rows]:
    """Which clusters stand in a line together."""
    if across_domains == "always" or not len(numbers):
        return [numbers] if len(numbers) else []
    by_domain = numbers[np.argsort(clusters.domain_of[numbers], kind="stable")]
    changes = np.flatnonzero(np.diff(clusters.domain_of[by_domain])) + 1
    return np.split(by_domain, changes)


def _line_up(centroids: NDArray[np.float32], order: Order, rng: np.random.Generator) -> Rows:
    """Order of the clusters in their line."""
    dealt = rng.permutation(len(centroids))
    if order == "random":
        return dealt
    groups = np.array_split(dealt, -(-len(dealt) // WALKED_TOGETHER))
    return np.concatenate([group[greedy_walk(centroids[group])] for group in groups])


def _leftovers(clusters: Clusters, left: Rows, order: Order, rng: np.random.Generator) -> Rows:
    """What is left of all domains, domain by domain in the order of a line of domains."""
    domains, domain = np.unique(clusters.domain_of, return_inverse=True)
    weights = np.bincount(clusters.of, minlength=len(domain)).astype(np.float32)
    centroids = np.zeros((len(domains), clusters.centroids.shape[1]), np.float32)
    np.add.at(centroids, domain, clusters.centroids * weights[:, None])
    centroids /= np.maximum(1, np.bincount(domain, weights)[:, None])
    place = np.empty(len(domains), np.int64)
    place[_line_up(centroids, order, rng)] = np.arange(len(domains))
    return left[np.argsort(place[domain[clusters.of[left]]], kind="stable")]


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            f"batches.{name} is {value!r}; it can be {', '.join(choices)}."
            f"{did_you_mean(value, choices)}"
        )
