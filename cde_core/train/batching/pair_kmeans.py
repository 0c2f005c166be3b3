"""K-means where every point is a pair of texts.

    queries, documents of a domain ──▶ midpoints ──▶ faiss ──▶ cluster of each pair, centroids

With both points bound to one cluster, half of the work vanishes. A cluster of pairs holds as many
points q⊕d as d⊕q, so its mean is a⊕a, where a is the mean of the midpoints m = (q+d)/2. A pair adds

    ‖q⊕d − a⊕a‖² + ‖d⊕q − a⊕a‖² = 2‖q − a‖² + 2‖d − a‖² = 4‖m − a‖² + ‖q − d‖²

to the objective, and the last term is the same in every clustering. The bound problem is therefore
exactly k-means on the N midpoints: half the points, half as wide. That is `points="paired"`.
`points="free"` is what the authors' code does: spherical k-means on the 2N points, not bound, after
which a pair belongs to the centroid nearest to its q⊕d. Where queries and documents of a matter lie
apart, its q⊕d and d⊕q are two heaps, centroids are spent on mirror images, and pairs end up in
fewer clusters than were asked for.

Either way centroids and inertia are those of the pairs' final clusters, so the two compare.

Source: Morris and Rush (2024), section 4.1, equations 2 and 3, https://arxiv.org/abs/2410.02525,
and the authors' published trainer; faiss computes k-means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ConfigError, did_you_mean
from cde_core.train.batching.surrogates import PairVectors, unit_rows

Points = Literal["paired", "free"]
Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]

ROWS_AT_ONCE = 65_536
"""Pairs brought from disk, reduced and summed together, which bounds memory."""

SAMPLE = 200_000
"""Queries that SVD is fitted on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KMeans:
    """How pairs are clustered; `cluster_pairs` says what each field means."""

    size: int
    dimensions: int
    iterations: int
    attempts: int
    seed: int
    points: Points

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("dimensions", 0), ("iterations", 1), ("attempts", 1)):
            if getattr(self, name) < least:
                raise ConfigError(
                    f"clusters.{name} is {getattr(self, name)}; it must be at least {least}."
                )
        if self.points not in ("paired", "free"):
            raise ConfigError(
                f"clusters.points is {self.points!r}; it can be paired, free."
                f"{did_you_mean(self.points, ('paired', 'free'))}"
            )


@dataclass(frozen=True, slots=True)
class Sides:
    """Queries and documents of all pairs, as they are compared."""

    vectors: PairVectors
    """The surrogate's."""

    components: Vectors | None = None
    """Directions (dimensions, d) to reduce them to; None: they stay as they are."""

    @property
    def width(self) -> int:
        """Of a query or document."""
        if self.components is None:
            return int(self.vectors.queries.shape[1])
        return len(self.components)

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Vectors, Vectors]]:
        """Some pairs at a time: their place among `rows`, their queries and their documents."""
        both = (self.vectors.queries, self.vectors.documents)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, len(rows)))
            queries, documents = (side[rows[part]] for side in both)
            yield part, self._reduced(queries), self._reduced(documents)

    def _reduced(self, side: Vectors) -> Vectors:
        return side if self.components is None else unit_rows(side @ self.components.T)


def reduced(vectors: PairVectors, dimensions: int, *, seed: int) -> Sides:
    """Both sides, by SVD of the queries if asked: once for all, so that domains' centroids compare.

    Args:
        vectors: The surrogate's.
        dimensions: Width wanted; 0, or no less than there is: as they are.
        seed: Of the sample that SVD is fitted on, and of SVD.
    """
    queries = vectors.queries
    if not 0 < dimensions < queries.shape[1] or not len(queries):
        return Sides(vectors)
    from sklearn.decomposition import TruncatedSVD

    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(len(queries), min(SAMPLE, len(queries)), replace=False))
    svd = TruncatedSVD(min(dimensions, len(drawn)), random_state=seed).fit(queries[drawn])
    return Sides(vectors, svd.components_.astype(np.float32))


def cluster_domain(
    sides: Sides, rows: Rows, settings: KMeans
) -> tuple[NDArray[np.int32], Vectors, float]:
    """Cluster the pairs of one domain.

    Returns:
        Cluster of each pair (n,), from 0 and none empty; the clusters' mean midpoints (k, d); the
        sum of squared distances of the 2n points to their cluster's mean.
    """
    midpoints, spread = _midpoints(sides, rows)
    clusters = -(-len(rows) // settings.size)
    if clusters == 1:
        nearest = np.zeros(len(rows), np.int64)
    elif settings.points == "paired":
        nearest = _kmeans(midpoints, clusters, settings)
    else:
        nearest = _kmeans(_both_points(sides, rows), clusters, settings)[: len(rows)]
    kept, of = np.unique(nearest, return_inverse=True)  # k-means may leave clusters empty
    means = _means(midpoints, of, len(kept))
    between = float((np.bincount(of) * np.square(means).sum(axis=1)).sum())
    squares = 4 * max(0.0, _sum_of_squares(midpoints) - between) + spread
    return of.astype(np.int32), means.astype(np.float32), squares


def _kmeans(points: Vectors, clusters: int, settings: KMeans) -> NDArray[np.int64]:
    """Nearest centroid of every point after the best of several attempts."""
    import faiss

    kmeans = faiss.Kmeans(
        points.shape[1],
        clusters,
        niter=settings.iterations,
        nredo=settings.attempts,
        seed=settings.seed,
        spherical=settings.points == "free",
        gpu=faiss.get_num_gpus() > 0,
        min_points_per_centroid=1,
        max_points_per_centroid=2**30,  # every point counts; faiss would look at 256 per cluster
    )
    kmeans.train(points)
    nearest: NDArray[np.int64] = kmeans.assign(points)[1]
    return nearest


def _midpoints(sides: Sides, rows: Rows) -> tuple[Vectors, float]:
    """Midpoints (n, d) of the pairs, and the sum of squared distances from query to document."""
    midpoints, spread = np.empty((len(rows), sides.width), np.float32), 0.0
    for part, queries, documents in sides.blocks(rows):
        np.multiply(queries + documents, 0.5, out=midpoints[part])
        spread += _sum_of_squares(queries - documents)
    return midpoints, spread


def _both_points(sides: Sides, rows: Rows) -> Vectors:
    """q⊕d of all pairs, then d⊕q of all pairs (2n, 2d)."""
    points = np.empty((2, len(rows), 2 * sides.width), np.float32)
    for part, queries, documents in sides.blocks(rows):
        points[0, part] = np.hstack((queries, documents))
        points[1, part] = np.hstack((documents, queries))
    return points.reshape(-1, 2 * sides.width)


def _means(points: Vectors, of: NDArray[np.int64], clusters: int) -> NDArray[np.float64]:
    """Mean of each cluster's points (K, d)."""
    import torch

    sums = torch.zeros(clusters, points.shape[1], dtype=torch.float64)
    for start in range(0, len(points), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        sums.index_add_(0, torch.from_numpy(of[part]), torch.from_numpy(points[part]).double())
    means: NDArray[np.float64] = sums.numpy() / np.bincount(of, minlength=clusters)[:, None]
    return means


def _sum_of_squares(points: Vectors) -> float:
    return float(np.einsum("ij,ij->i", points, points).sum(dtype=np.float64))
