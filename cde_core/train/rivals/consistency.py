"""Pairs that a judge agrees with: the document is among the best k of a pool for its query.

    Pairs ──▶ per group: a pool of documents, drawn ──▶ margin of each pair (N,) ──▶ those ≥ 0 stay

Pairs from the web are noisy: a title may say nothing of its page. A judge that learnt from all of
them ranks each pair's document within a pool, and a pair stays if at most k - 1 documents of the
pool score higher. E5 kept 270 million of 1.3 billion so, with k = 2 and a pool of a million.

A pool is drawn once a group, from its distinct documents; a pair's own document always takes part.
Copies of it, documents that only tie with it, and other answers to a query of the same text are no
rivals, so none of them drops a pair. Nor is a pair dropped of which the judge knows nothing: TF-IDF
gives zeros for a text without a known word.

Source: Wang et al. (2022), E5, section 3 (after Dai et al. 2022), https://arxiv.org/abs/2212.03533
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ConfigError
from cde_core.train.batching.surrogates import Progress, digest_of_parts
from cde_core.train.data.pairs import Pairs
from cde_core.train.rivals.each_pair import Answer, for_each_pair, reading_first
from cde_core.train.rivals.exact_search import highest, scores_of_own
from cde_core.train.rivals.groups import Group, Numbers
from cde_core.train.rivals.judges import Judge
from cde_core.train.rivals.readings import Reading

FORMAT = "consistency 1"
SPARE = 16
"""Documents looked at beyond the k that decide, in case some are answers; if all are, more are."""

FIELDS = ("margin", "rival")
"""What is kept of each pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Consistency:
    """What decides whether a pair stays."""

    keep: int = 2
    """k: a pair stays if its document is among so many."""

    pool: int = 1_000_000
    """Documents drawn to compare with, a group; where there are fewer, all."""

    across_domains: bool = False
    """Whether the pool is drawn from all domains together."""

    seed: int = 0
    """Of the draw."""

    def __post_init__(self) -> None:
        for name in ("keep", "pool"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; the least that works is 1.")


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """How each of N pairs stands in its pool."""

    margins: NDArray[np.float64]
    """Score of its document minus that of its k-th best rival (N,); infinite with fewer rivals."""

    rivals: Numbers
    """The best rival of each pair (N,), as a pair whose document it is; -1: there is none."""

    @property
    def stay(self) -> NDArray[np.bool_]:
        """Pairs that are consistent (N,)."""
        found: NDArray[np.bool_] = self.margins >= 0
        return found


def margins_of(
    pairs: Pairs,
    judge: Judge,
    settings: Consistency,
    *,
    cache: Path,
    progress: Progress | None = None,
) -> Margins:
    """Rank every pair's document within its pool, or find what was ranked before.

    A killed run goes on after the last pairs that it recorded.

    Args:
        pairs: N pairs.
        judge: Who scores.
        settings: How pools are drawn, and how many documents may stay.
        cache: Vectors and margins lie in `readings` and `consistency` below this folder.
        progress: Told how many more of 2N texts are read.

    Raises:
        DataError: If there are no pairs.
        ModelError: If the judge's vectors are not usable.
    """
    read = digest_of_parts(pairs.digest, judge.fingerprint, settings.across_domains)
    ranked = digest_of_parts(FORMAT, read, settings.keep, settings.pool, settings.seed)
    found = for_each_pair(
        pairs,
        reading_first(
            judge,
            lambda group, reading: _ranking(group, reading, settings),
            cache / "readings" / read,
            progress,
        ),
        across_domains=settings.across_domains,
        answers=cache / "consistency" / ranked,
        dtype=np.float64,  # which holds every row number below 2^53
        progress=progress,
    )
    return Margins(margins=found[:, 0], rivals=found[:, 1].astype(np.int64))


def _ranking(group: Group, reading: Reading, settings: Consistency) -> Answer:
    """Margin, and pair of the best rival, of some pairs of a group (m, 2)."""
    pool = _pool(group, settings)

    def answer(positions: Numbers) -> NDArray[np.float64]:
        queries = reading.queries[group.query_of[positions]]
        documents = reading.documents[group.document_of[positions]]
        own = scores_of_own(queries, documents)
        known = queries.any(axis=1) & documents.any(axis=1)
        found = np.empty((len(positions), 2))
        left, looked_at = np.arange(len(positions)), settings.keep + SPARE
        while len(left):
            numbers, scores = highest(queries[left], reading.documents, looked_at, among=pool)
            rivals = ~group.are_answers(positions[left], numbers)
            enough = rivals.sum(axis=1) >= settings.keep
            settled = enough | (looked_at >= len(pool))
            found[left, 0] = own[left] - _kth(scores, rivals, settings.keep)
            found[left, 1] = _first(group.first_document[numbers], rivals)
            left, looked_at = left[~settled], 8 * looked_at
        found[~known, 0] = 0
        return found

    return answer


def _pool(group: Group, settings: Consistency) -> Numbers:
    documents = len(group.first_document)
    if documents <= settings.pool:
        return np.arange(documents)
    rng = np.random.default_rng((settings.seed, group.number))
    return np.sort(rng.choice(documents, settings.pool, replace=False))


def _kth(scores: NDArray[np.float64], rivals: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    """Score of each row's k-th rival (n,); -inf where there are fewer."""
    at = rivals & (np.cumsum(rivals, axis=1) == k)
    found: NDArray[np.float64] = np.where(at, scores, -np.inf).max(axis=1, initial=-np.inf)
    return found


def _first(rows: Numbers, rivals: NDArray[np.bool_]) -> Numbers:
    """Each row's first rival (n,); -1 where there is none."""
    place = rivals.argmax(axis=1)[:, None]
    first = np.take_along_axis(rows, place, axis=1)[:, 0]
    return np.where(rivals.any(axis=1), first, -1)
