"""What comes before training: k-means of pairs against plain faiss, packing and filtering in N.

K-means: 40,000 pairs of 128 dimensions in clusters of 100, 20 iterations, every point used; ours
from vectors to clusters, faiss from a finished matrix to the cluster of each pair. Faiss gets two
matrices: the 2N points q⊕d and d⊕q, which is the problem as the paper states it, and the very N
midpoints that ours turns it into, which shows what ours costs beyond k-means.

Packing and filtering have no peer. Their rows compare the time per pair at a small N with that at a
large one, 16 times as large: 1.00 is flat, 0.06 would be quadratic. Half is accepted, because the
small N fits into the processor's caches and the large one does not. Filtering is what a step pays:
the surrogate's vectors of a batch fetched from a memory-mapped file, scores, and `false_negatives`.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import torch

from cde_core.train.batching.clusters import Clusters, cluster_pairs
from cde_core.train.batching.packing import pack
from cde_core.train.batching.surrogates import PairVectors, unit_rows
from cde_core.train.objectives.columns import columns, false_negatives
from tests.bench.report import Row, median_of

PAIRS, DIM, SIZE, ITERATIONS = 40_000, 128, 100, 20
BATCH, BATCHES = 256, 200
PER_CLUSTER = 500


def pair_vectors(pairs: int, *, matters: int = 200) -> PairVectors:
    """Pairs about some matters, as a surrogate would give them."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((matters, DIM))
    of = rng.integers(matters, size=pairs)
    queries, documents = (
        unit_rows(centres[of] + rng.standard_normal((pairs, DIM))) for _ in range(2)
    )
    return PairVectors(queries, documents, np.zeros((0, DIM), np.float32), "bench")


def plain_faiss(points: np.ndarray) -> np.ndarray:
    kmeans = faiss.Kmeans(
        points.shape[1],
        -(-PAIRS // SIZE),
        niter=ITERATIONS,
        seed=42,
        min_points_per_centroid=1,
        max_points_per_centroid=2**30,
    )
    kmeans.train(points)
    return kmeans.assign(points[:PAIRS])[1]


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def kmeans() -> list[Row]:
    vectors, domain_of = pair_vectors(PAIRS), np.zeros(PAIRS, np.int32)
    q, d = vectors.queries, vectors.documents
    peers = {
        "faiss on 2N points": np.vstack((np.hstack((q, d)), np.hstack((d, q)))),
        "faiss on midpoints": (q + d) / 2,
    }
    times: dict[str, list[float]] = {name: [] for name in (*peers, "ours")}
    for _ in range(3):
        for name, points in peers.items():
            times[name].append(seconds(lambda p=points: plain_faiss(p)))
        times["ours"].append(
            seconds(
                lambda: cluster_pairs(
                    vectors, domain_of, size=SIZE, iterations=ITERATIONS, attempts=1
                )
            )
        )
    what = f"k-means of pairs, {PAIRS:,} x {DIM}, {PAIRS // SIZE} clusters, {ITERATIONS} iterations"
    return [
        Row(
            what,
            peer=name,
            ratio=median_of(times[name], times["ours"]),
            wanted=1 / 1.1,
            detail=f"{min(times['ours']):.2f} s against {min(times[name]):.2f} s",
        )
        for name in peers
    ]


def clusters_of(pairs: int) -> Clusters:
    rng = np.random.default_rng(0)
    count = pairs // PER_CLUSTER
    return Clusters(
        of=rng.integers(count, size=pairs).astype(np.int32),
        centroids=rng.standard_normal((count, DIM), dtype=np.float32),
        domain_of=np.sort(rng.integers(4, size=count)).astype(np.int32),
        inertia=0.0,
        digest="",
    )


def flat(what: str, per_pair: dict[int, list[float]], wanted: float) -> Row:
    small, large = min(per_pair), max(per_pair)
    listed = ", ".join(f"{n:,}: {min(times) * 1e9:,.0f} ns" for n, times in per_pair.items())
    return Row(
        f"{what}, time per pair",
        peer=f"itself at {small:,} pairs",
        ratio=min(per_pair[small]) / min(per_pair[large]),
        wanted=wanted,
        detail=f"best of {len(per_pair[small])}: {listed}",
    )


def packing() -> Row:
    made = {pairs: clusters_of(pairs) for pairs in (250_000, 1_000_000, 4_000_000)}
    per_pair: dict[int, list[float]] = {pairs: [] for pairs in made}
    for epoch in range(4):
        for pairs, clusters in made.items():
            once = seconds(
                lambda c=clusters, e=epoch: pack(
                    c, batch_size=BATCH, order="nearest", seed=0, epoch=e
                )
            )
            per_pair[pairs].append(once / pairs)
    return flat(f"packing, nearest, clusters of {PER_CLUSTER}", per_pair, wanted=0.5)


def on_disk(pairs: int, folder: Path) -> PairVectors:
    rng = np.random.default_rng(0)
    sides = []
    for name in ("queries", "documents"):
        file = folder / f"{name}{pairs}.npy"
        np.save(file, unit_rows(rng.standard_normal((pairs, DIM), dtype=np.float32)))
        sides.append(np.load(file, mmap_mode="r").view(np.ndarray))
    return PairVectors(*sides, np.zeros((0, DIM), np.float32), "bench")


def filter_batches(vectors: PairVectors, batches: np.ndarray) -> None:
    """The masks of some batches, as training asks for them."""
    for rows in batches:
        queries, documents = (
            torch.from_numpy(side[rows]) for side in (vectors.queries, vectors.documents)
        )
        false_negatives(queries @ documents.T, columns(len(rows)))


def filtering() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        made = {n: on_disk(n, Path(folder)) for n in (62_500, 250_000, 1_000_000)}
        per_pair: dict[int, list[float]] = {pairs: [] for pairs in made}
        rng = np.random.default_rng(0)
        for _ in range(4):
            for pairs, vectors in made.items():
                batches = rng.permutation(pairs)[: BATCHES * BATCH].reshape(BATCHES, BATCH)
                once = seconds(lambda v=vectors, b=batches: filter_batches(v, b))
                per_pair[pairs].append(once / batches.size)
    what = f"filtering, random batches of {BATCH}, {DIM} dimensions"
    return flat(what, per_pair, wanted=0.5)


def run() -> list[Row]:
    return [*kmeans(), packing(), filtering()]
