"""The vectors that everything here passes around: float32, one row per text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Shape (n, dim)."""

Rows = npt.NDArray[np.int64]
"""Row numbers of documents in a corpus."""


def unit_length(vectors: Vectors) -> Vectors:
    """Rows scaled to length one; a row of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)
