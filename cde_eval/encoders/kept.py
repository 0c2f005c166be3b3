"""An encoder whose vectors stay on disk, so that nothing is embedded twice.

    texts ──▶ Kept ──▶ VectorStore of (model, revision, settings, prompt, context) ──▶ vectors
                            └── missing ones ──▶ Engine: this process, or a cluster of machines

It stands in for the encoder wherever one is evaluated. What cannot be kept (an encoder that ranks
by itself, or cannot say what its vectors depend on) is passed through.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cde_core.errors import CdeWarning
from cde_core.model.context_cache import cache_folder
from cde_core.text import Purpose
from cde_eval.embed import each_once
from cde_eval.encoders.protocol import Encoder, Keepable, Ranker
from cde_eval.encoders.registry import LoadOptions, load_encoder
from cde_eval.engines.choose import engine_named
from cde_eval.engines.here import Engine, Here
from cde_eval.progress import one_bar
from cde_eval.vector_store import TEXTS_PER_SHARD, StoredVectors, VectorStore
from cde_eval.vectors import RowsOfVectors, Vectors

IN_MEMORY = 512 * 2**20
"""Bytes of vectors up to which a corpus is searched in memory."""


@runtime_checkable
class OnEngine(Protocol):
    """An encoder that has its texts embedded by an engine."""

    engine: Engine
    """Which may search as well."""


class Kept:
    """An encoder with its vectors on disk, behind the `Encoder` protocol."""

    def __init__(self, inner: Encoder, *, engine: Engine | None = None) -> None:
        """Stand in for an encoder.

        Args:
            inner: An encoder that is `Keepable`.
            engine: Where texts are embedded, and vectors searched; None: in this process.
        """
        self.inner = inner
        self.name, self.revision = inner.name, inner.revision
        self.context_size, self.similarity = inner.context_size, inner.similarity
        self.task_types, self.settings = inner.task_types, inner.settings
        self.engine = engine or Here()
        self._stores: dict[str, VectorStore] = {}

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Any:
        """What the encoder reads."""
        return self.inner.read_context(documents, purpose=purpose)

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """Vectors of `texts`, shape (n, dim), in memory."""
        stored = self.stored(texts, purpose=purpose, context=context)
        return stored[:] if isinstance(stored, StoredVectors) else stored

    def stored(
        self, texts: Sequence[str], *, purpose: Purpose, context: Any = None
    ) -> StoredVectors | Vectors:
        """Vectors of `texts`, on disk, however many they are.

        In memory where there is nothing to embed, or where they cannot be kept: the encoder cannot
        say what decides them, or the cache folder cannot be written, which is then said.
        """
        assert isinstance(self.inner, Keepable)
        space = self.inner.space(purpose, context)
        if space is None or not len(texts):
            return self._unkept(texts, purpose, context)
        try:
            return self._store(space).vectors_of(
                texts, lambda blocks: self.engine.embed(self.inner, blocks, purpose, context)
            )
        except OSError as error:
            warnings.warn(
                f"Vectors cannot be kept in {vectors_folder()} ({error}), so the next run embeds "
                "these texts again; set CDE_EVAL_CACHE to a folder that can be written.",
                CdeWarning,
                stacklevel=2,
            )
            return self._unkept(texts, purpose, context)

    def _unkept(self, texts: Sequence[str], purpose: Purpose, context: Any) -> Vectors:
        """Vectors of `texts`, embedded where all are and kept nowhere."""
        starts = range(0, len(texts), TEXTS_PER_SHARD)
        if len(starts) < 2:
            return self.inner.encode(texts, purpose=purpose, context=context)
        blocks = (list(texts[start : start + TEXTS_PER_SHARD]) for start in starts)
        with one_bar(len(texts)) as reached:
            found: dict[int, Vectors] = {}
            done = 0
            for number, vectors in self.engine.embed(self.inner, blocks, purpose, context):
                found[number] = vectors
                done += len(vectors)
                reached(done)
        return np.concatenate([found[number] for number in range(len(starts))])

    def _store(self, space: dict[str, str]) -> VectorStore:
        settings = json.dumps(self.settings, sort_keys=True)
        about = {"model": self.name, "revision": self.revision, "settings": settings, **space}
        key = f"{vectors_folder()}\0{sorted(about.items())}"
        if key not in self._stores:
            self._stores[key] = VectorStore(vectors_folder(), about)
        return self._stores[key]


def kept(encoder: Encoder, engine: Engine | None = None) -> Encoder:
    """The encoder with its vectors on disk, where they can be kept; else the encoder itself.

    Only what can be kept is embedded by the engine.
    """
    if isinstance(encoder, Keepable) and not isinstance(encoder, Ranker | Kept):
        return Kept(encoder, engine=engine)
    return encoder


@lru_cache(maxsize=8)
def load_kept(model: str, options: LoadOptions) -> Encoder:
    """The encoder that `model` names, with its vectors on disk where they can be kept.

    Raises:
        ModelError: If it cannot be loaded.
        ConfigError: If the engine that `options` ask for is not there.
    """
    return kept(load_encoder(model, options), engine_named(model, options))


def engine_of(encoder: Encoder) -> Engine:
    """Where an encoder's vectors are searched."""
    return encoder.engine if isinstance(encoder, OnEngine) else Here()


def unkept(encoder: Encoder) -> Encoder:
    """The encoder itself, for texts that nobody will embed again."""
    return encoder.inner if isinstance(encoder, Kept) else encoder


def corpus_vectors(
    encoder: Encoder, texts: Sequence[str], purpose: Purpose, context: Any
) -> RowsOfVectors:
    """Vectors of a corpus: in memory if they fit easily, or cannot be kept, else on disk."""
    if isinstance(encoder, Kept):
        stored = encoder.stored(texts, purpose=purpose, context=context)
        fits = 4 * stored.shape[0] * stored.shape[1] <= IN_MEMORY
        return stored[:] if fits else stored
    vectors = each_once(texts, lambda new: encoder.encode(new, purpose=purpose, context=context))
    return vectors.astype(np.float32, copy=False)


def vectors_folder() -> Path:
    """Where the vectors of all spaces are kept."""
    return cache_folder() / "vectors"
