"""Pairs and judges whose scores can be worked out by hand."""

import functools
import hashlib

import numpy as np
import pytest

from cde_core.train.batching.surrogates import unit_rows
from cde_core.train.data.pairs import Pair, write_pairs


class ByLetters:
    """A vector of its own for every text; says what it was asked, and can die."""

    def __init__(self, *, dies_after=10**9, noise=0.5):
        self.fingerprint, self.left, self.noise, self.asked = (
            f"letters {noise}",
            dies_after,
            noise,
            [],
        )

    def encode(self, texts, side):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        self.asked += texts
        return unit_rows(np.array([vector_of(text, self.noise) for text in texts]))


@functools.cache
def vector_of(text, noise):
    """Texts of a subject, which is their last word, are near one another."""
    if not text.split():
        return np.zeros(8)
    subject, own = (
        np.random.default_rng(list(hashlib.sha256(part.encode()).digest())).normal(size=8)
        for part in (text.split()[-1], text)
    )
    return subject + noise * own


@pytest.fixture
def letters():
    return ByLetters


@pytest.fixture
def pairs(tmp_path):
    """Two domains that take turns, copies of documents, queries with several answers."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(90):
        subject = f"subject-{number % 12}"
        other = f"subject-{rng.integers(12)}"
        query = f"query {number % 40} {subject}"
        document = f"document {rng.integers(50)} {rng.choice([subject, subject, other])}"
        made.append(Pair(query, document, ("old negative",), "ab"[number % 3 == 0]))
    return write_pairs(made, tmp_path / "pairs")
