"""How far chance alone could have moved the mean of some differences.

    difference of each query ──▶ randomisation_p    would flipped signs do as well?
                             ──▶ resampled_means ──▶ interval    would other queries say the same?
    scores in each draw      ──▶ resampled_over_draws ──▶ interval    and other draws of context?
    p of each task           ──▶ holm               with so many tasks, one is lucky

Queries come in strata, the splits and subsets of a task: its score is the mean of their means, and
each stratum is resampled by itself. Draws are of the whole task.

Sources: Smucker, Allan and Carterette (2007), https://doi.org/10.1145/1321440.1321528; Sakai
(2006), https://doi.org/10.1145/1148170.1148261; Owen (2007), https://doi.org/10.1214/07-AOAS122;
Holm (1979), https://www.jstor.org/stable/4615733
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

RESAMPLES = 10_000
CONFIDENCE = 0.95

NUMBERS_AT_A_TIME = 2_000_000
"""What a batch of resamples holds; bounds memory whatever the number of queries."""

Floats = npt.NDArray[np.float64]


def mean_of_means(*strata: Floats, axis: int = -1) -> Any:
    """The mean over strata of their means: each counts once, however many queries it has."""
    return sum(np.mean(one, axis=axis) for one in strata) / len(strata)


def randomisation_p(strata: Sequence[Floats], rng: np.random.Generator) -> float:
    """How often a difference at least this large comes from flipping signs by chance.

    If A and B were equally good, each query's difference could as well have had the other sign.
    All sign patterns are tried where they are at most 10,000, else 10,000 by chance.

    Args:
        strata: For each split and subset, the difference of each query.
        rng: Where chance comes from.

    Returns:
        Two-sided p; 1 where no query has a difference.

    Source: Smucker, Allan and Carterette (2007), https://doi.org/10.1145/1321440.1321528
    """
    parts = np.concatenate([one / (len(one) * len(strata)) for one in strata])
    parts = parts[parts != 0]  # a sign changes nothing on a tie
    if len(parts) < 2:
        return 1.0
    if 2 ** len(parts) <= RESAMPLES:
        test = stats.permutation_test(
            (parts,), np.sum, permutation_type="samples", vectorized=True, n_resamples=RESAMPLES
        )
        return float(test.pvalue)

    def flipped(size: tuple[int, int]) -> Floats:
        signs: Floats = parts * (2 * rng.integers(0, 2, size, dtype=np.int8) - 1)
        return signs

    test = stats.monte_carlo_test(
        parts,
        flipped,
        np.sum,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=_batch(len(parts)),
    )
    return float(test.pvalue)


def resampled_means(strata: Sequence[Floats], rng: np.random.Generator) -> Floats | None:
    """What the mean difference would have been with other queries of the same kind.

    Args:
        strata: For each split and subset, the difference of each query; the mean of their means
            is taken, and each is resampled by itself.
        rng: Where chance comes from.

    Returns:
        Shape (10,000,); None where a stratum has one query, which says nothing about others.
    """
    if min(map(len, strata)) < 2:
        return None
    result = stats.bootstrap(
        strata,
        mean_of_means,
        n_resamples=RESAMPLES,
        batch=_batch(sum(map(len, strata))),
        vectorized=True,
        method="percentile",
        rng=rng,
    )
    means: Floats = result.bootstrap_distribution
    return means


def resampled_over_draws(
    strata: Sequence[tuple[Floats, Floats]], rng: np.random.Generator, *, paired: bool
) -> Floats | None:
    """What the mean of B − A would have been with other queries, and other draws of their contexts.

    Each time as many draws as there are, then as many queries of each stratum, both with
    replacement. Every draw was scored on the same queries, so all draws that were taken see the
    queries that were taken; queries taken anew for each draw would even out and leave the interval
    too narrow. The spread over n draws comes out small by a factor of √(1 − 1/n), and a side with
    one draw has none.

    Args:
        strata: For each split and subset, the scores of A, shape (draws of A, queries), and those
            of B, shape (draws of B, queries); the draws are the same in every stratum.
        rng: Where chance comes from.
        paired: Take the same draws of both sides; they then have as many.

    Returns:
        Shape (10,000,); None where a stratum has one query, which says nothing about others.

    Source: Owen (2007), The pigeonhole bootstrap, https://doi.org/10.1214/07-AOAS122
    """
    if min(a.shape[1] for a, _ in strata) < 2:
        return None
    draws_a, draws_b = (len(side) for side in strata[0])
    at_once = _batch(sum(a.size + b.size for a, b in strata))
    found = []
    for start in range(0, RESAMPLES, at_once):
        count = min(at_once, RESAMPLES - start)
        of_a = rng.integers(draws_a, size=(count, draws_a))
        of_b = of_a if paired else rng.integers(draws_b, size=(count, draws_b))
        parts = []
        for a, b in strata:
            difference = b[of_b].mean(axis=1) - a[of_a].mean(axis=1)  # (count, queries)
            queries = rng.integers(a.shape[1], size=difference.shape)
            parts.append(np.take_along_axis(difference, queries, axis=1))
        found.append(mean_of_means(*parts))
    means: Floats = np.concatenate(found)
    return means


def interval(means: Floats) -> tuple[float, float]:
    """The middle 95 % of resampled means: the percentile bootstrap."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def holm(p: Sequence[float]) -> list[float]:
    """P-values corrected for their number: at most 5 % chance that any of them misleads.

    The smallest is multiplied by n, the next by n − 1, and so on; none falls below the one before.

    Source: Holm (1979), https://www.jstor.org/stable/4615733
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(raised, 1)
    return [float(value) for value in corrected]


def _batch(numbers: int) -> int:
    """Resamples at a time, of so many numbers each."""
    return max(1, NUMBERS_AT_A_TIME // numbers)
