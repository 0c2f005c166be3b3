"""Embed every distinct text once.

    texts ──▶ distinct texts ──▶ encode ──▶ vectors ──▶ back to the order of the texts

Benchmarks repeat themselves: a pair-classification set holds the same tweet hundreds of times.
Encoding costs a thousand times more than looking up, so repetition is removed before the model
sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cde_eval.vectors import Vectors


def each_once(texts: Sequence[str], encode: Callable[[list[str]], Vectors]) -> Vectors:
    """Vectors of `texts`, calling `encode` with the distinct ones only, in order of appearance."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = encode(list(rows))
    if len(rows) == len(texts):
        return vectors
    return vectors[np.fromiter((rows[text] for text in texts), dtype=np.int64, count=len(texts))]
