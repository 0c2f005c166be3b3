"""How closely two measurements go together, and how sure that is.

    x, y of n things ──▶ pearson ──▶ r, with its 95 % interval (Fisher's)

Source: Fisher (1921), "On the probable error of a coefficient of correlation"; scipy computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEAST = 4
"""Points below which the interval is all of −1 to 1, and r says nothing."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r of n points."""

    r: float
    low: float
    high: float
    """The interval that holds the true one in 95 % of samples."""

    points: int

    def __str__(self) -> str:
        interval = f"[{signed(self.low)}, {signed(self.high)}]"
        return f"r = {signed(self.r)} {interval}, n = {self.points}"


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Pearson's r and its 95 % interval.

    Args:
        x: A measurement of n things.
        y: Another of the same things; NaN in either leaves that thing out.

    Returns:
        None for fewer than four points, or where one side is all the same.
    """
    left, right = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    known = np.isfinite(left) & np.isfinite(right)
    left, right = left[known], right[known]
    if len(left) < LEAST or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    found = stats.pearsonr(left, right)
    interval = found.confidence_interval(0.95)
    return Correlation(float(found.statistic), float(interval.low), float(interval.high), len(left))


def signed(value: float) -> str:
    """A number with two decimals and its sign, as print has it: "+0.50", "−0.50"."""
    return f"{value:+.2f}".replace("-", "−")
