"""What is said of a difference between two runs: which is better, or that it may be chance."""

from __future__ import annotations

from cde_eval.compare import Difference
from cde_eval.resampling import CONFIDENCE

B_BETTER, A_BETTER, UNCLEAR = "B better", "A better", "may be chance"
UNTESTED = "not tested"

PERCENT = f"{CONFIDENCE:.0%}".replace("%", " %")
"""Of the intervals."""


def verdict(one: Difference) -> str:
    """Which run is better on a task, after correction."""
    if one.p is None:
        return UNTESTED
    if not one.significant:
        return UNCLEAR
    return B_BETTER if one.difference > 0 else A_BETTER


def points(score: float | None) -> float:
    """A score, or a difference of two, from 0 to 100; NaN where there is none."""
    return float("nan") if score is None else 100 * score
