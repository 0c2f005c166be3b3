"""Encoders that count numbered words (w0, w1, …), all of a text or only its first ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cde_core.text import Purpose
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders.protocol import Similarity
from cde_eval.probes.position.passages import Passage, Passages
from cde_eval.probes.position.situations import Situation
from cde_eval.vectors import Vectors

WORDS_PER_DOCUMENT = 200
WORDS_PER_PASSAGE = 20

NOTHING_READ = Situation(ContextPolicy("none"))


@dataclass
class CountingEncoder:
    """One dimension per word, so every cosine can be worked out by hand."""

    words: int
    """How many words there are."""

    first: int | None = None
    """Words that are read of a text; None for all."""

    name: str = "tests/counting"
    revision: str = "1"
    context_size: int | None = 0
    similarity: Similarity = "cosine"
    task_types: frozenset[str] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    calls_left: int = 1_000
    encoded: list[str] = field(default_factory=list)

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Vectors:
        return self._counts(documents).mean(axis=0)

    def encode(
        self, texts: Sequence[str], *, purpose: Purpose, context: Vectors | None = None
    ) -> Vectors:
        if self.calls_left == 0:
            raise KeyboardInterrupt
        self.calls_left -= 1
        self.encoded += texts
        counts = self._counts(texts)
        return counts if context is None else counts - context

    def _counts(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.words), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.split()[: self.first]:
                vectors[row, int(word.strip("w"))] += 1
        return vectors


def numbered_passages(documents: int = 4) -> Passages:
    """Documents of 200 words that no other has; the query is the passage, words 100 to 119."""
    texts, passages = [], []
    for row in range(documents):
        words = [f"w{row * WORDS_PER_DOCUMENT + k:04}" for k in range(WORDS_PER_DOCUMENT)]
        passage = " ".join(words[100 : 100 + WORDS_PER_PASSAGE])
        texts.append(" ".join(words))
        start = texts[-1].index(passage)
        passages.append(Passage(f"q{row}", passage, row, start, start + len(passage)))
    return Passages("numbered", texts, tuple(passages))
