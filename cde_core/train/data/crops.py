"""Two crops of a text as query and document: pairs without anybody's judgement.

    crops:SOURCE ──▶ texts ──▶ two spans of 10 to 50 % of the words, each by chance ──▶ Pair

The two are drawn independently, so they may overlap, and neither is nearer to the beginning. The
spans of a text follow from the text and the seed alone, so the same texts give the same pairs in
whatever order they come. Words are what stands between white space; how many of them a model reads
is a matter of its own limit.

Source: Izacard et al. (2022), Contriever, section 3.1, https://arxiv.org/abs/2112.09118; the shares
are those of Coelho et al. (2024), section 3.2, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import numpy as np

from cde_core.train.data.pairs import Pair
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_layouts import BadRow
from cde_core.train.data.text_sources import TextSource

SHORTEST, LONGEST = 0.1, 0.5
"""Shares of a text's words that a crop may have."""

FEWEST_WORDS = 10
"""Texts of fewer words are left out: a tenth of them is no word."""

VERSION = 1
"""Raise it whenever the same texts would give other crops."""


class CropSource:
    """A pair for every text that is long enough."""

    def __init__(self, texts: TextSource, *, seed: int = 0) -> None:
        """Name the source of texts; nothing is read yet."""
        self._texts, self._seed = texts, seed

    def revision(self, revisions: Revisions) -> str:
        """That of the texts, and how they are cut."""
        cut = f"crops {VERSION} {self._seed} {SHORTEST} {LONGEST} {FEWEST_WORDS}"
        return f"{cut} of {self._texts.revision(revisions)}"

    def read(self) -> Iterator[Pair | BadRow]:
        """A pair for every text, in order."""
        for text in self._texts.read():
            if isinstance(text, BadRow):
                yield text
            elif crops := two_crops(text.text, seed=self._seed):
                yield Pair(query=crops[0], document=crops[1], domain=text.domain)


def two_crops(text: str, *, seed: int) -> tuple[str, str] | None:
    """Two spans of a text as they stand in it; None where it has too few words."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if len(words) < FEWEST_WORDS:
        return None
    digest = hashlib.sha256(f"{seed} {text}".encode("utf-8", "surrogatepass")).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    first, second = (_crop(text, words, rng) for _ in range(2))
    return first, second


def _crop(text: str, words: list[tuple[int, int]], rng: np.random.Generator) -> str:
    length = max(1, round(len(words) * rng.uniform(SHORTEST, LONGEST)))
    start = int(rng.integers(len(words) - length + 1))
    return text[words[start][0] : words[start + length - 1][1]]
