"""A frozen opinion on which texts are alike: every pair embedded once, before training.

    Surrogate ┐
    pairs ────┴──▶ embed_pairs ──▶ PairVectors ──▶ clusters, filter

The method needs to know which pairs are neighbours before there is a model that could tell, so
another model tells (GTR in the paper). Any will do that gives one vector per text.

Embedding is most of the work that comes before training, so it is done once per content: vectors
lie under a key made of the pairs and the surrogate, and a killed run goes on where it stopped.

Source: Morris and Rush (2024), section 4.1, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import DataError, ModelError
from cde_core.locks import one_process_at_a_time
from cde_core.train.batching.growing_array import GrowingArray, opened

if TYPE_CHECKING:
    from cde_core.train.data.pairs import Pairs

Side = Literal["query", "document"]
"""Which side of a pair a text stands on; hard negatives are documents."""

Progress = Callable[[int], object]
"""Told how many more texts are done."""

FORMAT = "cde_core surrogate vectors 1"
TEXTS_AT_ONCE = 8_192
"""Texts embedded between two records of progress: what a killed run does again at most."""


class Surrogate(Protocol):
    """Whatever gives one vector per text."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its vectors."""

    def encode(self, texts: Sequence[str], side: Side) -> NDArray[np.float32]:
        """Vectors (n, d) of length one, in the order of the texts; zeros where it knows nothing."""


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Some rows of vectors on disk, under numbers of their own."""

    vectors: NDArray[np.float32]
    """All of them."""

    chosen: NDArray[np.int64]
    """Row `chosen[i]` is number i."""

    def __getitem__(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some rows, in the order asked for."""
        return self.vectors[self.chosen[numbers]]


@dataclass(frozen=True, slots=True)
class PairVectors:
    """What a surrogate makes of N pairs with M hard negatives: unit rows, memory-mapped."""

    queries: NDArray[np.float32]
    """(N, d)"""

    documents: NDArray[np.float32]
    """(N, d)"""

    negatives: NDArray[np.float32] | PickedRows
    """(M, d), in the order of the pairs' own numbers."""

    digest: str
    """Of the pairs and the surrogate."""

    def borrowing(self, negatives: NDArray[np.int64]) -> PairVectors:
        """The vectors of pairs whose negatives are documents of other pairs (`Pairs.borrowing`)."""
        picked = PickedRows(self.documents, negatives[negatives >= 0])
        digest = digest_of_parts(self.digest, hashlib.sha256(negatives.tobytes()).hexdigest())
        return dataclasses.replace(self, negatives=picked, digest=digest)


def embed_pairs(
    pairs: Pairs, surrogate: Surrogate, *, cache: Path, progress: Progress | None = None
) -> PairVectors:
    """Embed all texts of all pairs, or find what was embedded before.

    A killed run goes on after the last texts that it recorded. Who asks for what another process
    is embedding waits for it.

    Args:
        pairs: N pairs with M hard negatives between them.
        surrogate: What embeds them.
        cache: Vectors lie in `surrogates` below this folder.
        progress: Told how many more of the 2N + M texts are done, remembered ones too.

    Raises:
        DataError: If there are no pairs.
        ModelError: If the surrogate gives something else than one finite vector per text.
    """
    if not len(pairs):
        raise DataError("There are no pairs to embed; name sources that hold some.")
    digest = digest_of_parts(FORMAT, pairs.digest, surrogate.fingerprint)
    folder = cache / "surrogates" / digest
    folder.mkdir(parents=True, exist_ok=True)
    columns = _columns(pairs)
    with one_process_at_a_time(folder / "lock"):
        _remove_misfits(columns, folder)
        for column in columns:
            embed_column(column, surrogate, folder, progress)
    queries, documents, negatives = (
        np.load(folder / f"{column.name}.npy", mmap_mode="r").view(np.ndarray) for column in columns
    )
    if queries.shape[1] != documents.shape[1]:
        raise ModelError(
            f"The surrogate's queries are {queries.shape[1]} wide and its documents "
            f"{documents.shape[1]}, so they cannot be compared; name another surrogate."
        )
    return PairVectors(queries, documents, negatives, digest)


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Rows (n, d) scaled to length one; rows of zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled


def digest_of_parts(*parts: object) -> str:
    """Digest of anything that JSON can hold, for the names of cached files."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Column:
    """All texts of one kind."""

    name: str
    """Of the file with their vectors, without its ending."""

    rows: int
    """How many there are."""

    side: Side
    """Which side they stand on."""

    texts: Callable[[NDArray[np.int64]], list[str]]
    """Some of them, by their numbers."""


def _columns(pairs: Pairs) -> tuple[Column, ...]:
    negatives = int(pairs.first_negative[-1])
    return (
        Column("queries", len(pairs), "query", pairs.queries),
        Column("documents", len(pairs), "document", pairs.documents),
        Column("negatives", negatives, "document", pairs.negatives),
    )


def _remove_misfits(columns: Sequence[Column], folder: Path) -> None:
    """Remove finished files that are damaged, and all of them where their widths differ."""
    files = {folder / f"{column.name}.npy": column.rows for column in columns}
    found = {file: opened(file, rows=rows) for file, rows in files.items()}
    widths = {array.shape[1] for array in found.values() if array is not None}
    for file, array in found.items():
        if array is None or len(widths) > 1:
            file.unlink(missing_ok=True)


def embed_column(
    column: Column, surrogate: Surrogate, folder: Path, progress: Progress | None
) -> None:
    """Fill the file of one column, from where it ends.

    A column without rows is as wide as the queries in the same folder.

    Raises:
        ModelError: If the surrogate gives something else than one finite vector per text.
    """
    file = folder / f"{column.name}.npy"
    if file.is_file():
        return _tell(progress, column.rows)
    with GrowingArray(file, rows=column.rows) as growing:
        _tell(progress, growing.done)
        if not column.rows:  # no negatives: as wide as the queries nevertheless
            growing.append(np.load(folder / "queries.npy", mmap_mode="r")[:0])
        while growing.done < column.rows:
            numbers = np.arange(growing.done, min(growing.done + TEXTS_AT_ONCE, column.rows))
            growing.append(_vectors_of(column.texts(numbers), column.side, surrogate))
            _tell(progress, len(numbers))


def _vectors_of(texts: list[str], side: Side, surrogate: Surrogate) -> NDArray[np.float32]:
    """Vectors of some texts, each distinct one embedded once."""
    number_of: dict[str, int] = {}
    numbers = [number_of.setdefault(text, len(number_of)) for text in texts]
    vectors = np.asarray(surrogate.encode(list(number_of), side), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(number_of):
        raise ModelError(
            f"The surrogate gave an array of shape {vectors.shape} for {len(number_of)} texts; it "
            "must give one vector per text."
        )
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise ModelError(
            f"The surrogate gave NaN or infinity for {len(broken)} texts, such as "
            f"{list(number_of)[broken[0]][:60]!r}; name another surrogate."
        )
    return vectors[numbers]


def _tell(progress: Progress | None, texts: int) -> None:
    if progress and texts:
        progress(texts)
