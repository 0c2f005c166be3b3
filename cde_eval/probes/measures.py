"""Numbers that say how vectors lie in their space. Pure functions: vectors in, numbers out.

    anisotropy        do all vectors point the same way?       mean cosine of two of them
    self_similarity   is a word's vector its own?              the same, of one word's occurrences
    alignment         are a query and its answer near?         mean squared distance
    uniformity        are vectors spread over the sphere?      log mean exp(-2 squared distance)
    variance_shares, effective_rank                            how many directions do they use?
    spread, distance, closer                                   how far does context move them?

A mean over all pairs has an interval by the jackknife: what it would be without each vector.

Sources: Ethayarajh (2019), https://arxiv.org/abs/1909.00512; Wang and Isola (2020),
https://arxiv.org/abs/2005.10242; Roy and Vetterli (2007), "The effective rank"; Efron and Stein
(1981) for the jackknife.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cde_eval.resampling import interval, resampled_means

Floats = npt.NDArray[np.float64]
"""Shape (n, dim) unless it is said otherwise."""

AT_A_TIME = 1_024
"""Vectors whose distances to all others are in memory together."""

TWO_SIDED = 1.96
"""Standard errors on each side of a 95 % interval."""


class Estimate(NamedTuple):
    """A number with its 95 % interval; the ends are NaN where too little was seen for one."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


def anisotropy(vectors: npt.NDArray[Any]) -> Estimate:
    """Mean cosine of all pairs of vectors (n, dim): 0 in all directions alike, 1 if all are one.

    Source: Ethayarajh (2019), section 3.3
    """
    unit = _unit(vectors)
    return _over_pairs(unit @ unit.sum(axis=0) - np.einsum("nd,nd->n", unit, unit))


def self_similarity(words: Sequence[npt.NDArray[Any]], rng: np.random.Generator) -> Estimate:
    """Mean cosine of a word's vectors in different texts, the mean over words.

    Args:
        words: For each word, its vectors (occurrences, dim), at least two.
        rng: Resamples the words for the interval.

    Source: Ethayarajh (2019), section 3.2
    """
    return mean_of(np.array([anisotropy(one).value for one in words]), rng)


def alignment(
    left: npt.NDArray[Any], right: npt.NDArray[Any], rng: np.random.Generator
) -> Estimate:
    """Mean squared distance of the two vectors of a pair, each scaled to length one: 0 to 4.

    Args:
        left: Shape (pairs, dim).
        right: Shape (pairs, dim).
        rng: Resamples the pairs for the interval.

    Source: Wang and Isola (2020), equation 1, with α = 2
    """
    return mean_of(((_unit(left) - _unit(right)) ** 2).sum(axis=1), rng)


def uniformity(vectors: npt.NDArray[Any]) -> Estimate:
    """Log of the mean of exp(-2 · squared distance) over pairs of unit vectors: 0 if all are one.

    Lower is more even: isotropic vectors in many dimensions have about -4.

    Source: Wang and Isola (2020), equation 2, with t = 2
    """
    unit = _unit(vectors)
    starts = range(0, len(unit), AT_A_TIME)
    # Of unit vectors, the squared distance is 2 − 2 cos.
    sums = [np.exp(4 * (unit[i : i + AT_A_TIME] @ unit.T) - 4).sum(axis=1) for i in starts]
    to_itself = np.exp(4 * np.einsum("nd,nd->n", unit, unit) - 4)
    return _over_pairs(np.concatenate(sums) - to_itself, np.log)


def variance_shares(vectors: npt.NDArray[Any]) -> Floats:
    """Share of the variance along each principal component of the unit vectors, falling.

    Returns:
        Shape (min(n, dim),); zeros where all vectors are one.
    """
    squared = _singular_values(vectors) ** 2
    total = squared.sum()
    return np.asarray(squared / total if total > 0 else squared, dtype=np.float64)


def effective_rank(vectors: npt.NDArray[Any]) -> float:
    """How many directions the unit vectors use: exp of the entropy of their singular values.

    Between 1 and dim for vectors that differ; 0 where all are one.

    Source: Roy and Vetterli (2007), of the vectors less their mean
    """
    values = _singular_values(vectors)
    if not values.any():
        return 0.0
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def truncation_steps(dim: int) -> list[int]:
    """How many of the first dimensions to keep: 8, 16, 32, …, and all."""
    return [step for step in (8 * 2**i for i in range(32)) if step < dim] + [dim]


def spread(vectors: npt.NDArray[Any]) -> Floats:
    """Of each document, the mean cosine distance between its vectors in two contexts.

    Args:
        vectors: Shape (contexts, documents, dim), at least two contexts.

    Returns:
        Shape (documents,).
    """
    return np.array([1 - anisotropy(one).value for one in np.swapaxes(vectors, 0, 1)])


def distance(vectors: npt.NDArray[Any]) -> Floats:
    """Of each document, the mean cosine distance to the others in the same context.

    Args:
        vectors: Shape (contexts, documents, dim), at least two documents.

    Returns:
        Shape (documents,).
    """
    unit = np.stack([_unit(one) for one in vectors])
    to_all = np.einsum("cnd,cd->cn", unit, unit.sum(axis=1))
    cosines = (to_all - np.einsum("cnd,cnd->cn", unit, unit)) / (unit.shape[1] - 1)
    return np.asarray(1 - cosines.mean(axis=0), dtype=np.float64)


def closer(vectors: npt.NDArray[Any]) -> Floats:
    """Of each document, how often it is nearer to itself in another context than to all others.

    Over the ordered pairs of contexts: in the one as it is, in the other looked for. A tie counts
    as not nearer.

    Args:
        vectors: Shape (contexts, documents, dim), at least two of each.

    Returns:
        Shape (documents,), between 0 and 1.
    """
    unit = np.stack([_unit(one) for one in vectors])
    found = np.zeros(unit.shape[1])
    for one in range(len(unit)):
        for other in range(len(unit)):
            if one != other:
                cosines = unit[one] @ unit[other].T
                own = cosines.diagonal().copy()
                np.fill_diagonal(cosines, -np.inf)
                found += own > cosines.max(axis=1)
    return found / (len(unit) * (len(unit) - 1))


def mean_of(values: Floats, rng: np.random.Generator) -> Estimate:
    """A mean with its interval by the bootstrap over the values."""
    means = resampled_means([values], rng)
    return Estimate(float(values.mean()), *(interval(means) if means is not None else ()))


def _unit(vectors: npt.NDArray[Any]) -> Floats:
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return np.asarray(exact / np.where(lengths == 0, 1, lengths), dtype=np.float64)


def _singular_values(vectors: npt.NDArray[Any]) -> Floats:
    unit = _unit(vectors)
    values = np.linalg.svd(unit - unit.mean(axis=0), compute_uv=False)
    # What is left of equal vectors after their mean is rounding, and has no direction.
    return np.asarray(np.where(values < 1e-9 * np.sqrt(len(unit)), 0, values), dtype=np.float64)


def _over_pairs(row_sums: Floats, scale: Callable[[Any], Any] = lambda mean: mean) -> Estimate:
    """The mean over pairs of a symmetric number, from its sum over the partners of each."""
    n = len(row_sums)
    if n < 2:
        return Estimate(float("nan"))
    total = row_sums.sum() / 2
    value = float(scale(total / (n * (n - 1) / 2)))
    if n < 3:
        return Estimate(value)
    without_each = scale((total - row_sums) / ((n - 1) * (n - 2) / 2))
    error = np.sqrt((n - 1) / n * ((without_each - without_each.mean()) ** 2).sum())
    return Estimate(value, float(value - TWO_SIDED * error), float(value + TWO_SIDED * error))
