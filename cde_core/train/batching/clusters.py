"""Which pairs are neighbours: k-means on both sides of a pair at once.

    PairVectors ──▶ SVD, if asked ──▶ k-means per domain (pair_kmeans) ──▶ Clusters ──▶ packing

A batch is hard where its documents are alike for its queries, and its queries for its documents. So
a pair (q, d) is two points, q⊕d and d⊕q, and both belong in one cluster (equations 2 and 3): pairs
of a cluster are near each other from either side. Clusters never cross domains. They are kept by
the content of what was clustered, and the same data and seed give the same ones.

Source: Morris and Rush (2024), section 4.1, https://arxiv.org/abs/2410.02525, and the authors'
published trainer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import uuid
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import DataError
from cde_core.train.batching.pair_kmeans import (
    KMeans,
    Points,
    Sides,
    Vectors,
    cluster_domain,
    reduced,
)
from cde_core.train.batching.surrogates import PairVectors, digest_of_parts

Numbers = NDArray[np.int32]

FORMAT = "cde_core clusters 1"


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """N pairs in K clusters, none of them empty and each within one domain."""

    of: Numbers
    """Cluster of each pair (N,)."""

    centroids: Vectors
    """Mean of each cluster's midpoints (K, d), d after SVD; d is 0 where nothing was clustered."""

    domain_of: Numbers
    """Domain of each cluster (K,), ascending."""

    inertia: float
    """Mean squared distance of the 2N points q⊕d and d⊕q to the mean of their cluster's points; NaN
    where nothing was clustered."""

    digest: str
    """Of what was clustered, and how."""


def cluster_pairs(
    vectors: PairVectors,
    domain_of: Numbers,
    *,
    size: int,
    dimensions: int = 0,
    iterations: int = 100,
    attempts: int = 3,
    seed: int = 42,
    points: Points = "paired",
    cache: Path | None = None,
    progress: Callable[[int], object] | None = None,
) -> Clusters:
    """Cluster pairs within their domains, or find what the same data and settings gave before.

    Args:
        vectors: A surrogate's, of N pairs.
        domain_of: Domain of each pair (N,).
        size: Pairs per cluster wanted; a domain has one cluster per so many, the last begun.
        dimensions: Reduce vectors to so many first, by SVD fitted on the queries; 0: do not.
        iterations: Of each attempt.
        attempts: K-means runs; the one with the lowest objective counts.
        seed: Of SVD and k-means.
        points: Whether a pair's two points are bound to one cluster ("paired") or only the first
            one decides ("free").
        cache: Clusters are kept in `clusters` below this folder; None: nowhere.
        progress: Told how many more pairs are clustered, remembered ones too.

    Raises:
        ConfigError: If a setting is out of its range.
        DataError: If the cache cannot be written.

    Source: Morris and Rush (2024), section 4.1, equations 2 and 3.
    """
    settings = KMeans(
        size=size,
        dimensions=dimensions,
        iterations=iterations,
        attempts=attempts,
        seed=seed,
        points=points,
    )
    if len(domain_of) != len(vectors.queries):
        raise ValueError(f"{len(domain_of)} domains for {len(vectors.queries)} pairs")
    chosen = dataclasses.asdict(settings)
    digest = digest_of_parts(FORMAT, vectors.digest, _digest_of(domain_of), chosen)
    file = None if cache is None else cache / "clusters" / f"{digest}.npz"
    clusters = _load(file, digest, len(domain_of)) if file else None
    if clusters is None:
        sides = reduced(vectors, dimensions, seed=seed)
        clusters = _cluster(sides, domain_of, settings, digest, progress)
        if file:
            _save(file, clusters)
    elif progress:
        progress(len(domain_of))
    return clusters


def one_cluster_per_domain(domain_of: Numbers) -> Clusters:
    """No clustering: each domain (N,) is one cluster, so batches are random within it."""
    domains, of = np.unique(domain_of, return_inverse=True)
    return Clusters(
        of=of.astype(np.int32),
        centroids=np.zeros((len(domains), 0), np.float32),
        domain_of=domains.astype(np.int32),
        inertia=float("nan"),
        digest=digest_of_parts("one cluster per domain", _digest_of(domain_of)),
    )


def _cluster(
    sides: Sides,
    domain_of: Numbers,
    settings: KMeans,
    digest: str,
    progress: Callable[[int], object] | None,
) -> Clusters:
    """Cluster every domain by itself, and number all clusters in the order of domains."""
    of = np.empty(len(domain_of), np.int32)
    centroids, domains = [np.empty((0, sides.width), np.float32)], [np.empty(0, np.int32)]
    found, squares = 0, 0.0
    for domain, rows in _rows_by_domain(domain_of):
        of_domain, means, squares_of_domain = cluster_domain(sides, rows, settings)
        of[rows] = of_domain + found
        found += len(means)
        squares += squares_of_domain
        centroids.append(means)
        domains.append(np.full(len(means), domain, np.int32))
        if progress:
            progress(len(rows))
    inertia = squares / max(1, 2 * len(of))
    return Clusters(of, np.concatenate(centroids), np.concatenate(domains), inertia, digest)


def _rows_by_domain(domain_of: Numbers) -> Iterator[tuple[int, NDArray[np.int64]]]:
    order = np.argsort(domain_of, kind="stable")
    domains, starts = np.unique(domain_of[order], return_index=True)
    for domain, rows in zip(domains, np.split(order, starts[1:]), strict=False):
        yield int(domain), rows


def _digest_of(numbers: Numbers) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<i4").data).hexdigest()


def _load(file: Path, digest: str, pairs: int) -> Clusters | None:
    """Clusters from a file; None if there is none, or it is not what it should be."""
    try:
        with file.open("rb") as opened, np.load(opened) as held:
            of, centroids, domain_of = (held[name] for name in ("of", "centroids", "domain_of"))
            inertia = float(held["inertia"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if len(of) != pairs or len(centroids) != len(domain_of):
        return None
    return Clusters(of, centroids, domain_of, inertia, digest)


def _save(file: Path, clusters: Clusters) -> None:
    unfinished = file.with_name(f"{file.name}.{uuid.uuid4().hex}.unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as out:
            np.savez(
                out,
                of=clusters.of,
                centroids=clusters.centroids,
                domain_of=clusters.domain_of,
                inertia=clusters.inertia,
            )
        unfinished.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise DataError(
            f"Clusters cannot be written to {file.parent} ({error.strerror}); make room there, or "
            "set CDE_EVAL_CACHE to another folder."
        ) from error
