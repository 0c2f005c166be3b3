"""Exact nearest documents, with integer ids until the very end.

    queries (q, d) ───┐
                      ├▶ scores (q, tile) ──▶ those above the bar ──▶ best so far ──▶ Ranking (q, k)
    tile of documents ┘   a tile a core       each query's k-th so far   a number each

Documents are read a tile at a time, so a corpus may be larger than memory. Of a tile's scores, only
those above the query's k-th best so far are looked at again: for k = 1,000 some ten thousand of a
million. That leaves little beside the matrix product, and makes ties exact: tiles are taken in by
the order of rows, so a document that only equals the k-th comes after it anyway.

Documents are rows, and stay row numbers until mteb asks for names. mteb's own search turns every
candidate into a Python tuple on a heap; skipping that is most of the difference in speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from cde_eval.ranking import UNFILLED, Keys, Ranking, best_of, decoded, encoded, ranking_of
from cde_eval.vectors import Rows, RowsOfVectors, Vectors

QUERIES_AT_ONCE = 4_096
"""Queries per pass over the documents: enough that reading those costs little."""

SMALLEST_TILE, LARGEST_TILE = 1_024, 16_384
"""Documents per tile, a power of two."""

SCORES_AT_ONCE = 2**20
"""In the product of queries and a tile, about: enough for a thread to be busy for a while, and few
enough to be in the processor's cache still when they are looked at."""

MOST_THREADS = 16
"""More would wait for the one that takes in what they find."""

KEYS_AT_ONCE = 2**25
"""Kept between cuts, 8 bytes each; a very large k takes fewer queries per pass."""

Tile = npt.NDArray[np.floating[Any]]
"""Some documents that follow one another in the corpus, shape (t, d)."""

Hits = tuple[Rows, Vectors]
"""Places in a table of scores (q, t), rising, counted along its rows; and the scores there."""

Score = Callable[[Tile, Vectors | None], Hits]
"""From a tile and a bar for each query to the scores above it; without a bar, to all scores."""


def nearest(
    queries: Vectors,
    documents: RowsOfVectors,
    top_k: int,
    *,
    rows_at_once: int = 65_536,
    device: str = "cpu",
) -> Ranking:
    """The `top_k` documents with the greatest inner product for each query, exactly.

    Where scores are equal, the lower row comes first. Scores are float32 whatever the vectors are
    kept in; one that is not a number counts as -inf. The bits are the same whatever `rows_at_once`
    and on any number of cores, and also if parts of the corpus that begin at multiples of
    `LARGEST_TILE` are searched alone, for the same queries, and `merged`.

    Memory, beside the arguments and a few times the result: at most 300 MiB of keys and as much
    while they are cut, 20 MiB for each of at most 17 tiles in work, and `rows_at_once` documents if
    `documents` makes new arrays, as a store does. None of it grows with the corpus.

    Args:
        queries: Shape (q, d).
        documents: Shape (n, d), at most 2^32 - 1 of them: an array, a memory-mapped one or a store.
        top_k: Documents per query; all n where there are fewer.
        rows_at_once: Rows to ask of `documents` at a time, rounded up to a multiple of
            `LARGEST_TILE`.
        device: Where to multiply: "cpu", or whatever torch calls it, such as "cuda" and "mps".
            On a GPU the product is torch's too, with or without a faiss for GPUs.
    """
    k = min(top_k, len(documents))
    if k < 1 or len(queries) == 0:
        return decoded(np.empty((len(queries), max(k, 0)), dtype=np.uint64))
    step = min(QUERIES_AT_ONCE, max(1, KEYS_AT_ONCE // _room(k)))
    keys = []
    for start in range(0, len(queries), step):
        some = np.ascontiguousarray(queries[start : start + step], dtype=np.float32)
        tiles = _tiles(documents, rows_at_once, _tile_size(len(some)))
        if device == "cpu":
            with _one_thread_per_product() as threads:
                keys.append(_best_keys(some, tiles, k, _on_cpu(some), threads))
        else:
            keys.append(_best_keys(some, tiles, k, _with_torch(some, device), 1))
    return decoded(np.concatenate(keys))


def best_of_candidates(
    queries: Vectors,
    documents: RowsOfVectors,
    document_rows: Rows,
    candidates: Sequence[Rows],
    top_k: int,
) -> Ranking:
    """The best of each query's own candidates.

    Args:
        queries: Shape (q, d).
        documents: Shape (n, d), those documents of a corpus that are candidates at all. Only a
            query's own candidates are asked for at a time.
        document_rows: Shape (n,), rising: the row in the corpus of each of them.
        candidates: For each query, the rows in the corpus that it may rank; none is fine.
        top_k: Documents per query.
    """
    best = []
    for query, rows in zip(queries, candidates, strict=True):
        own = documents[np.searchsorted(document_rows, rows)].astype(np.float32, copy=False)
        scores = own @ query
        best.append(best_of(scores, rows, top_k))
    return ranking_of(best, top_k)


def best_of_scores(
    scores: Iterable[npt.NDArray[np.float32]], top_k: int, candidates: Sequence[Rows] | None
) -> Ranking:
    """The best rows of score vectors, one vector over all documents per query.

    Args:
        scores: For each query, shape (n,).
        top_k: Documents per query.
        candidates: Where given, the only rows that each query may rank.
    """
    best = []
    for number, row_scores in enumerate(scores):
        rows = np.arange(len(row_scores)) if candidates is None else candidates[number]
        best.append(best_of(row_scores[rows], rows, top_k))
    return ranking_of(best, top_k)


def _tile_size(queries: int) -> int:
    """The same however a corpus is read, since the last bits of a product depend on its shape."""
    wanted = min(max(SCORES_AT_ONCE // queries, SMALLEST_TILE), LARGEST_TILE)
    return 1 << (wanted.bit_length() - 1)


def _room(k: int) -> int:
    """Keys of a query that are kept before they are cut to k: rarely, and while it is cheap."""
    return 2 * max(k, SMALLEST_TILE)


def _tiles(documents: RowsOfVectors, rows_at_once: int, size: int) -> Iterator[tuple[int, Tile]]:
    """Each tile, and the row that it begins at."""
    step = max(1, -(-rows_at_once // LARGEST_TILE)) * LARGEST_TILE
    for start in range(0, len(documents), step):
        block = documents[start : start + step]
        for offset in range(0, len(block), size):
            yield start + offset, block[offset : offset + size]


_limiting = Lock()


@contextmanager
def _one_thread_per_product() -> Iterator[int]:
    """Let products take one thread each; gives how many would have been allowed for one.

    Many products side by side need not wait for each other at every step as the threads of one do,
    and have the same bits on any number of cores.
    """
    with _limiting:  # the limit is the whole process's, and must be lifted by who set it first
        products = ThreadpoolController().select(user_api="blas")
        allowed = max((library["num_threads"] for library in products.info()), default=1)
        with products.limit(limits=1):
            yield min(allowed, MOST_THREADS)


def _best_keys(
    queries: Vectors, tiles: Iterable[tuple[int, Tile]], k: int, score: Score, threads: int
) -> Keys:
    """Shape (q, k), best first: score tiles side by side, and take in the hits by their order.

    A bar may have risen since a tile was begun; that only lets through more than is needed.
    """
    best = _BestSoFar(len(queries), k)
    begun: deque[tuple[Future[Hits], int, int]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for first, tile in tiles:
            bar = None if first < k else best.bar.copy()
            begun.append((pool.submit(score, tile, bar), first, len(tile)))
            if len(begun) > threads:
                best.add(*begun.popleft())
        while begun:
            best.add(*begun.popleft())
    return best.keys_in_order()


def _on_cpu(queries: Vectors) -> Score:
    def score(tile: Tile, bar: Vectors | None) -> Hits:
        table = queries @ np.ascontiguousarray(tile, dtype=np.float32).T
        flat = table.ravel()
        if bar is None:
            return np.arange(len(flat)), flat
        places = np.flatnonzero(table > bar[:, None])
        return places, flat[places]

    return score


def _with_torch(queries: Vectors, device: str) -> Score:
    import torch  # takes seconds

    there = torch.tensor(queries, device=device)

    def score(tile: Tile, bar: Vectors | None) -> Hits:
        table = there @ torch.tensor(np.asarray(tile, dtype=np.float32), device=device).T
        flat = table.view(-1)
        if bar is None:
            return np.arange(len(flat)), flat.cpu().numpy()
        higher = table > torch.tensor(bar, device=device)[:, None]
        places = higher.view(-1).nonzero().view(-1)
        return places.cpu().numpy(), flat[places].cpu().numpy()

    return score


class _BestSoFar:
    """The k best documents of each query among those seen, and some that are yet to be cut away."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self.keys = np.full((queries, _room(k) + _tile_size(queries)), UNFILLED)
        self.filled = np.zeros(queries, dtype=np.int64)
        self.bar = np.full(queries, -np.inf, dtype=np.float32)

    def add(self, hits: Future[Hits], first: int, rows: int) -> None:
        """Take in the hits of a tile of so many rows from the first, once they are there."""
        places, scores = hits.result()
        query = places // rows
        each = np.bincount(query, minlength=len(self.filled))
        free = self.filled - (np.cumsum(each) - each)  # hits come query by query
        self.keys[query, free[query] + np.arange(len(query))] = encoded(
            scores, places - query * rows + first
        )
        self.filled += each
        full = np.flatnonzero(self.filled > _room(self.k))
        if len(full):
            self._cut(full)

    def keys_in_order(self) -> Keys:
        """The k best of each query, best first."""
        self._cut(np.arange(len(self.keys)))
        return np.sort(self.keys[:, : self.k], axis=1)

    def _cut(self, full: Rows) -> None:
        keys = self.keys[full]
        keys.partition(self.k - 1, axis=1)
        keys[:, self.k :] = UNFILLED
        self.keys[full] = keys
        self.filled[full] = self.k
        self.bar[full] = decoded(keys[:, self.k - 1]).scores
