"""A tiny real encoder: hashed word counts, moved by the mean of its context.

It is fast, deterministic, depends on every word and on the context, and keeps a note of all that
it was given, so that a test can ask what reached the model.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cde_core.text import Purpose, prefix_for
from cde_eval.encoders.protocol import Similarity
from cde_eval.vectors import Vectors

DIM = 64


@dataclass
class TinyEncoder:
    name: str = "tests/tiny"
    revision: str = "1"
    context_size: int | None = 8
    similarity: Similarity = "cosine"
    task_types: frozenset[str] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    read: list[tuple[str, ...]] = field(default_factory=list)
    encoded: list[tuple[str, ...]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Every text as it reaches the model, prefix in front, in order."""

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Vectors:
        self.read.append(tuple(documents))
        return self._vectors(documents, purpose).mean(axis=0)

    def encode(
        self, texts: Sequence[str], *, purpose: Purpose, context: Vectors | None = None
    ) -> Vectors:
        self.encoded.append(tuple(texts))
        vectors = self._vectors(texts, purpose)
        return vectors if context is None else vectors - context

    def _vectors(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        prefix = prefix_for(purpose)
        self.seen += [prefix + text for text in texts]
        vectors = np.full((len(texts), DIM), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                code = zlib.crc32(word.encode())
                vectors[row, code % DIM] += 1 + (code >> 8) % 7 / 10
        return vectors
