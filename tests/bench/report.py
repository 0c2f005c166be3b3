"""A row of `make bench`: how many times as fast as a peer, in the same run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Row:
    what: str
    peer: str
    ratio: float
    """Peer's time over ours: above 1 is faster."""
    wanted: float
    detail: str = ""

    def __str__(self) -> str:
        verdict = "ok  " if self.ratio >= self.wanted else "SLOW"
        return (
            f"{verdict} {self.ratio:6.2f}x (wanted {self.wanted:.2f}x) of {self.peer:<22} "
            f"{self.what}\n       {self.detail}"
        )


def median_of(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Median of the ratios of runs that were timed one after the other."""
    return median(a / b for a, b in zip(theirs, ours, strict=True))
