"""A biencoder seen from the middle of the corpus: the training-free control.

    x ──▶ x − mean of the context's vectors ──▶ (whitened by their covariance) ──▶ unit length

What all documents of a corpus have in common tells none of them apart. Subtracting the mean vector
of a context removes it without any training, so any model that was trained to use context has to
beat this one. Whitening also evens out the directions in which the corpus varies.

Source: Su et al. (2021), Whitening sentence representations, https://arxiv.org/abs/2103.15316;
covariance shrunk as by Ledoit and Wolf (2004), since contexts hold few documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cde_core.errors import ModelError
from cde_core.text import Purpose
from cde_eval.encoders.kept import kept
from cde_eval.encoders.protocol import Encoder, Similarity
from cde_eval.encoders.registry import LoadOptions, load_encoder
from cde_eval.engines.choose import engine_named
from cde_eval.engines.here import Engine, Here
from cde_eval.vectors import Vectors, unit_length


@dataclass(frozen=True, slots=True)
class Centre:
    """Where a corpus lies in a model's space."""

    mean: Vectors
    """Shape (dim,)."""

    whitening: Vectors | None
    """Shape (dim, dim), the inverse square root of the covariance; None to leave it out."""

    def apply(self, vectors: Vectors) -> Vectors:
        """Vectors as seen from this centre, shape (n, dim)."""
        moved = vectors - self.mean
        return moved if self.whitening is None else np.asarray(moved @ self.whitening)


class Centred:
    """A context-free encoder whose vectors are moved by the mean of a context."""

    context_size: int | None = 512
    similarity: Similarity = "cosine"
    task_types: frozenset[str] | None = None

    def __init__(self, base: Encoder, *, whiten: bool, engine: Engine | None = None) -> None:
        self.base = base
        self.engine = engine or Here()
        self._kept_base = kept(base, self.engine)  # whose vectors are the same in every context
        self.whiten = whiten
        self.name = f"{base.name}-{'whitened' if whiten else 'centred'}"
        self.revision = base.revision
        self.settings = base.settings

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Centre:
        """Mean (and, to whiten, covariance) of the documents' unit vectors."""
        vectors = unit_length(self._kept_base.encode(documents, purpose=purpose))
        whitening = _inverse_square_root_of_covariance(vectors) if self.whiten else None
        return Centre(vectors.mean(axis=0), whitening)

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """Unit vectors of `texts`, shape (n, dim); without context, the base encoder's own."""
        vectors = unit_length(self._kept_base.encode(texts, purpose=purpose))
        return vectors if context is None else unit_length(context.apply(vectors))


def _inverse_square_root_of_covariance(vectors: Vectors) -> Vectors:
    from sklearn.covariance import ledoit_wolf

    covariance, _ = ledoit_wolf(vectors.astype(np.float64))
    values, directions = np.linalg.eigh(covariance)
    floor = values.max() * 1e-6  # a context of equal documents varies in no direction
    scale = 1 / np.sqrt(np.maximum(values, floor if floor > 0 else 1.0))
    return np.asarray((directions * scale) @ directions.T, dtype=np.float32)


def load_centred(argument: str, options: LoadOptions) -> Centred:
    """A biencoder minus the mean of its context: centred:minilm; MiniLM by default."""
    return _load(argument, "centred", options)


def load_whitened(argument: str, options: LoadOptions) -> Centred:
    """A biencoder centred on its context and whitened: whitened:minilm; MiniLM by default."""
    return _load(argument, "whitened", options)


def _load(argument: str, kind: str, options: LoadOptions) -> Centred:
    model = argument or "minilm"
    base = load_encoder(model, options)
    if base.context_size != 0:
        raise ModelError(f"{kind!r} moves a context-free encoder, and {argument!r} reads context.")
    return Centred(base, whiten=kind == "whitened", engine=engine_named(model, options))
