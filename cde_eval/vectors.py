"""The vectors that everything here passes around: float32, one row per text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Shape (n, dim)."""

Rows = npt.NDArray[np.int64]
"""Row numbers of documents in a corpus."""


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
