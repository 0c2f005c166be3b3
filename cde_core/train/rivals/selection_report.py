"""What `cde-train filter` and `cde-train mine` print: how much of each domain, and some examples.

    Pairs + pairs that stay (N,) ──▶ kept_by_domain, dropped_pairs ──▶ text
    Pairs + numbers of negatives ──▶ mined_by_domain ──▶ text

A share says little by itself; whether the right pairs go is best seen by reading some, each beside
the document that was preferred to its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cde_core.train.data.pairs import Pairs
from cde_core.train.rivals.consistency import Margins
from cde_core.train.rivals.groups import Numbers

WIDTH = 100
DOMAINS_SHOWN = 40


def kept_by_domain(pairs: Pairs, stay: NDArray[np.bool_]) -> str:
    """A table with a line per domain, the largest first, and one for all."""
    kept = np.bincount(pairs.domain_of[stay], minlength=len(pairs.domains))
    return _by_domain(pairs, "kept", kept, [f"{k / n:.1%}" for k, n in _shares(pairs, kept)])


def mined_by_domain(pairs: Pairs, negatives: Numbers) -> str:
    """The same of negatives (N, n), of which -1 is none: how many a pair has in the mean."""
    each = (negatives >= 0).sum(axis=1)
    found = np.bincount(pairs.domain_of, weights=each, minlength=len(pairs.domains)).astype(int)
    return _by_domain(pairs, "negatives", found, [f"{k / n:.2f}" for k, n in _shares(pairs, found)])


def dropped_pairs(pairs: Pairs, margins: Margins, *, some: int, seed: int = 0) -> str:
    """Some pairs that were dropped, by chance, each with its best rival."""
    dropped = np.flatnonzero(~margins.stay)
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(dropped, min(some, len(dropped)), replace=False))
    return "\n\n".join(_dropped(pairs, int(row), margins) for row in drawn)


def _dropped(pairs: Pairs, row: int, margins: Margins) -> str:
    pair = pairs[row]
    (rival,) = pairs.documents(margins.rivals[[row]])
    return "\n".join(
        (
            f"dropped from {pair.domain or '(none)'}, by {-margins.margins[row]:.3f}",
            _line("query", pair.query),
            _line("its document", pair.document),
            _line("preferred", rival),
        )
    )


def _line(what: str, text: str) -> str:
    line = f"  {what:<13} {' '.join(text.split())}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def _shares(pairs: Pairs, counts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Count and pairs of every domain, and of all."""
    sizes = np.bincount(pairs.domain_of, minlength=len(pairs.domains))
    found = [*zip(counts.tolist(), sizes.tolist(), strict=True)]
    return [*found, (int(counts.sum()), int(sizes.sum()))]


def _by_domain(pairs: Pairs, what: str, counts: NDArray[np.int64], shares: list[str]) -> str:
    sizes = np.bincount(pairs.domain_of, minlength=len(pairs.domains))
    names = [name or "(none)" for name in pairs.domains]
    order = np.argsort(-sizes, kind="stable")
    rows = [(names[i], f"{sizes[i]:,}", f"{counts[i]:,}", shares[i]) for i in order if sizes[i]]
    if len(rows) > DOMAINS_SHOWN:
        left_out = len(rows) - DOMAINS_SHOWN
        rows = [*rows[:DOMAINS_SHOWN], (f"… {left_out} more", "", "", "")]
    rows.append(("all domains", f"{sizes.sum():,}", f"{counts.sum():,}", shares[-1]))
    heads = ("domain", "pairs", what, "share" if what == "kept" else "a pair")
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(4)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}" + "".join(f"  {row[i]:>{widths[i]}}" for i in (1, 2, 3))
        for row in (heads, *rows)
    )
