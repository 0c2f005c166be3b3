"""The vectors that everything here passes around: float32, one row per text."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Shape (n, dim)."""

Rows = npt.NDArray[np.int64]
"""Row numbers of documents in a corpus."""


class RowsOfVectors(Protocol):
    """Vectors of a corpus that need not fit in memory: an array, a mapped file, a store on disk."""

    def __len__(self) -> int:
        """How many vectors there are."""
        ...

    def __getitem__(self, rows: slice | Rows, /) -> npt.NDArray[np.floating[Any]]:
        """Those rows, shape (rows, dim), in whatever float they are kept in."""
        ...


ALREADY = 1e-6
"""How far from one a length may be to count as one: what float32 loses in adding up squares."""


def unit_length(vectors: Vectors) -> Vectors:
    """Rows scaled to length one; a row of zeros stays as it is.

    Most encoders give rows of length one; those come back uncopied, since a copy of a large corpus
    takes longer than all the arithmetic on it.
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    if vectors.dtype == np.float32 and (np.abs(lengths - 1) < ALREADY).all():
        return vectors
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


class UnitRows:
    """A corpus's vectors, each scaled to length one as it is read."""

    def __init__(self, vectors: RowsOfVectors) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._vectors)

    def __getitem__(self, rows: slice | Rows) -> Vectors:
        """Rows by a slice or by their numbers, shape (n, dim)."""
        return unit_length(self._vectors[rows])
