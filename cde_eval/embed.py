"""Embed every distinct text once.

    texts ──▶ distinct texts ──▶ encode ──▶ vectors ──▶ back to the order of the texts

Benchmarks repeat themselves: a pair-classification set holds the same tweet hundreds of times, and
a context-free encoder sees the same corpus under every policy. Encoding costs a thousand times
more than looking up, so repetition is removed before the model sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from cde_eval.vectors import Vectors


def progress_bar(total: int, what: str = "texts") -> tqdm[Any]:
    """A bar for work that takes more than two seconds, on terminals only."""
    return tqdm(total=total, desc=what, unit="", leave=False, delay=2, disable=None)


def each_once(texts: Sequence[str], encode: Callable[[list[str]], Vectors]) -> Vectors:
    """Vectors of `texts`, calling `encode` with the distinct ones only, in order of appearance."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = encode(list(rows))
    if len(rows) == len(texts):
        return vectors
    return vectors[np.fromiter((rows[text] for text in texts), dtype=np.int64, count=len(texts))]


class VectorMemory:
    """Vectors of texts seen before, for encoders whose vectors depend on nothing else.

    Holds up to `limit` vectors in memory; once full, new texts are encoded and not remembered.
    """

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._vectors: dict[tuple[Hashable, bytes], Vectors] = {}

    def recall(
        self, texts: Sequence[str], kind: Hashable, encode: Callable[[list[str]], Vectors]
    ) -> Vectors:
        """Vectors of `texts`, calling `encode` with those not seen before under this `kind`.

        Args:
            texts: What to embed; repetitions cost nothing.
            kind: Whatever else decides the vector, such as the prompt.
            encode: Gives one row per text.
        """
        return each_once(texts, lambda distinct: self._fill(distinct, kind, encode))

    def _fill(
        self, texts: list[str], kind: Hashable, encode: Callable[[list[str]], Vectors]
    ) -> Vectors:
        keys = [
            (kind, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()) for text in texts
        ]
        unknown = [row for row, key in enumerate(keys) if key not in self._vectors]
        if len(unknown) == len(texts):
            vectors = encode(texts)
        else:
            fresh = encode([texts[row] for row in unknown]) if unknown else None
            first = next(self._vectors[key] for key in keys if key in self._vectors)
            vectors = np.empty((len(texts), len(first)), dtype=np.float32)
            if fresh is not None:
                vectors[unknown] = fresh
            for row, key in enumerate(keys):
                if key in self._vectors:
                    vectors[row] = self._vectors[key]
        room = max(0, self._limit - len(self._vectors))
        self._vectors.update((keys[row], vectors[row].copy()) for row in unknown[:room])
        return vectors
