"""Which words are followed through the layers, and their rows.

    texts ──▶ a word by chance of each          two of them: how alike are any two words?
          ──▶ words that are in several texts   one of them: how alike is a word to itself?

A text gives a word once: what is asked is how much *other* texts change it.

Source: Ethayarajh (2019), sections 3.1 and 3.2, https://arxiv.org/abs/1909.00512
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cde_core.errors import TaskError
from cde_eval.probes.layers import LayerReader, Word
from cde_eval.progress import progress_bar
from cde_eval.vectors import Rows, Vectors


@dataclass(frozen=True, slots=True)
class Repeated:
    """Which repeated words are followed."""

    words: int
    """How many, at most."""

    occurrences: int
    """Texts, at most, that each is looked at in."""

    fewest: int
    """Texts that it must be in, at least."""


@dataclass(frozen=True, slots=True)
class WordRows:
    """Rows (layers + 1, dim) of words."""

    random: list[Vectors]
    """Of a word of each text."""

    repeated: Mapping[str, list[Vectors]]
    """For each repeated word, in several texts."""

    def layers(self) -> Iterator[tuple[Vectors, list[Vectors]]]:
        """For each layer, the random words (texts, dim), and each repeated word's own rows."""
        for layer in range(len(self.random[0])):
            random = np.stack([rows[layer] for rows in self.random])
            groups = self.repeated.values()
            yield random, [np.stack([rows[layer] for rows in group]) for group in groups]


def follow_words(
    reader: LayerReader, texts: Sequence[str], how: Repeated, rng: np.random.Generator
) -> WordRows:
    """Choose words, run the texts that hold them, and keep nothing but these words' rows.

    Args:
        reader: Of a model's layers.
        texts: Where the words are.
        how: Which repeated words.
        rng: Chooses.

    Raises:
        TaskError: If the texts have too few words in common.
    """
    words = reader.words(texts)
    random = [[one[rng.integers(len(one))]] if one else [] for one in words]
    repeated = repeated_words(words, how, rng)
    if sum(map(len, random)) < 3 or not repeated:
        raise TaskError(
            f"The {len(texts)} texts have no word that {how.fewest} of them share, so words cannot "
            "be followed through the layers; raise --texts."
        )
    found = WordRows([], {word: [] for word in repeated})
    with progress_bar(len(texts), "layers") as done:
        for number, text in enumerate(texts):
            names = [word for word, places in repeated.items() if number in places]
            chosen = [*random[number], *(repeated[word][number] for word in names)]
            if chosen:
                rows = list(np.swapaxes(reader.rows(text, chosen), 0, 1))
                found.random.extend(rows[: len(random[number])])
                for word, row in zip(names, rows[len(random[number]) :], strict=True):
                    found.repeated[word].append(row)
            done(1)
    return found


def repeated_words(
    words: Sequence[Sequence[Word]], how: Repeated, rng: np.random.Generator
) -> dict[str, dict[int, Word]]:
    """Words by chance of those in enough texts: for each, some of these texts and its place there.

    Args:
        words: Of each text.
        how: Which, and how many.
        rng: Chooses.
    """
    places: dict[str, dict[int, Word]] = {}
    for number, one in enumerate(words):
        for word in one:
            places.setdefault(word.text, {}).setdefault(number, word)
    known = [word for word in sorted(places) if len(places[word]) >= max(2, how.fewest)]
    chosen = [known[int(row)] for row in sample_rows(len(known), how.words, rng)]
    return {word: _some(places[word], how.occurrences, rng) for word in chosen}


def sample_rows(n: int, most: int, rng: np.random.Generator) -> Rows:
    """Rows by chance out of n, rising; all where there are not more."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _some(places: Mapping[int, Word], most: int, rng: np.random.Generator) -> dict[int, Word]:
    texts = sorted(places)
    chosen = [texts[int(row)] for row in sample_rows(len(texts), most, rng)]
    return {number: places[number] for number in chosen}
