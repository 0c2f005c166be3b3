"""Hard negatives: the documents that a model takes for answers, and that are none.

    Pairs, Judge ──▶ the `depth` best documents of the group ──▶ without answers ──▶ numbers (N, n)

A model learns little from documents that it tells from the answer already. So each pair gets those
of its own corpus that the model ranks highest, without the pair's document, its copies, and other
answers to a query of the same text. ANCE draws some of the first 200 by chance; others take the
first. The best ranked are often answers that nobody labelled: with a margin below 0, documents that
score nearly as high as the answer leave.

Source: Xiong et al. (2021), ANCE, section 4, https://arxiv.org/abs/2007.00808; margins after
Moreira et al. (2024), NV-Retriever, section 3, https://arxiv.org/abs/2407.15831
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ConfigError
from cde_core.train.batching.surrogates import Progress, digest_of_parts
from cde_core.train.data.pairs import Pair, Pairs
from cde_core.train.rivals.each_pair import Answer, for_each_pair, reading_first
from cde_core.train.rivals.exact_search import highest, scores_of_own
from cde_core.train.rivals.groups import Group, Numbers
from cde_core.train.rivals.judges import Judge
from cde_core.train.rivals.readings import Reading

FORMAT = "negatives 1"
PAIRS_AT_ONCE = 1_024


@dataclass(frozen=True, kw_only=True, slots=True)
class Mining:
    """Which documents become negatives."""

    negatives: int = 9
    """Negatives of a pair; fewer where there are no more."""

    depth: int = 200
    """Highest-ranked documents that are looked at, answers included."""

    choose: Literal["highest", "drawn"] = "highest"
    """Of those that are no answers, the highest-ranked, or some by chance."""

    margin: float | None = None
    """A document leaves where it scores at least the answer's score plus this; None: none does."""

    seed: int = 0
    """Of the draw."""

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise ConfigError(f"negatives is {self.negatives}; the least that works is 1.")
        if self.depth <= self.negatives:
            raise ConfigError(
                f"depth is {self.depth}, but {self.negatives} negatives beside an answer need at "
                f"least {self.negatives + 1}."
            )
        if self.margin is not None and not math.isfinite(self.margin):
            raise ConfigError(f"margin is {self.margin}; it must be a number, such as -0.05.")


def mined(
    pairs: Pairs,
    judge: Judge,
    settings: Mining,
    *,
    readings: Path,
    answers: Path,
    progress: Progress | None = None,
) -> Numbers:
    """Find every pair's negatives among the documents of its domain, or those found before.

    A killed run goes on after the last pairs that it recorded.

    Args:
        pairs: N pairs.
        judge: The model.
        settings: What of its ranking is taken (n negatives).
        readings: Folder of the judge's vectors of these pairs.
        answers: Folder of what is found for these pairs, judge and settings.
        progress: Told how many more of 2N texts are read.

    Returns:
        Negatives as pairs whose documents they are, the highest-ranked first (N, n); -1 fills
        places that are left.

    Raises:
        DataError: If there are no pairs.
        ModelError: If the judge's vectors are not usable.
    """
    found: Numbers = for_each_pair(
        pairs,
        reading_first(
            judge, lambda group, reading: _negatives(group, reading, settings), readings, progress
        ),
        across_domains=False,
        answers=answers,
        dtype=np.int64,
        progress=progress,
    )
    return found


def mined_in_cache(
    pairs: Pairs, judge: Judge, settings: Mining, *, cache: Path, progress: Progress | None = None
) -> Numbers:
    """The same, kept in `readings` and `negatives` below the folder of a cache."""
    read = digest_of_parts(pairs.digest, judge.fingerprint, False)
    asked = digest_of_parts(FORMAT, read, dataclasses.asdict(settings))
    folders = {"readings": cache / "readings" / read, "answers": cache / "negatives" / asked}
    return mined(pairs, judge, settings, **folders, progress=progress)


def with_negatives(pairs: Pairs, negatives: Numbers) -> Iterator[Pair]:
    """Pairs with the documents of other pairs (N, n) as their only negatives, of no teacher."""
    stream = iter(pairs)
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        own = negatives[start : start + PAIRS_AT_ONCE]
        texts = iter(pairs.documents(own[own >= 0]))
        for count in (own >= 0).sum(axis=1):
            those = tuple(next(texts) for _ in range(count))
            yield dataclasses.replace(next(stream), negatives=those, scores=())


def _negatives(group: Group, reading: Reading, settings: Mining) -> Answer:
    def answer(positions: Numbers) -> Numbers:
        queries = reading.queries[group.query_of[positions]]
        numbers, scores = highest(queries, reading.documents, settings.depth)
        good = ~group.are_answers(positions, numbers)
        if settings.margin is not None:
            own = scores_of_own(queries, reading.documents[group.document_of[positions]])
            good &= scores < own[:, None] + settings.margin
        chosen = _chosen(good, group.rows[positions], settings)
        rows = np.full((len(positions), settings.negatives), -1)
        places = np.argsort(~chosen, axis=1, kind="stable")[:, : settings.negatives]
        taken = np.take_along_axis(group.first_document[numbers], places, axis=1)
        rows[:, : taken.shape[1]] = np.where(np.take_along_axis(chosen, places, axis=1), taken, -1)
        return rows

    return answer


def _chosen(good: NDArray[np.bool_], rows: Numbers, settings: Mining) -> NDArray[np.bool_]:
    """Which of the documents that may be negatives are taken (m, k), at most n a pair."""
    if settings.choose == "highest":
        return good & (np.cumsum(good, axis=1) <= settings.negatives)
    chosen = np.zeros_like(good)
    for place, row in enumerate(rows):  # a draw of its own, whoever is asked with it
        those = np.flatnonzero(good[place])
        rng = np.random.default_rng((settings.seed, int(row)))
        most = min(settings.negatives, len(those))
        chosen[place, rng.choice(those, most, replace=False)] = True
    return chosen
