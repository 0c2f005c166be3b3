"""What `cde-train filter`, `mine` and `score` print: how much of each domain, and some examples.

    Pairs + pairs that stay (N,) ──▶ kept_by_domain, dropped_pairs ──▶ text
    Pairs + numbers of negatives ──▶ mined_by_domain ──▶ text
    Pairs + a teacher's scores   ──▶ scored_by_domain ──▶ text

A share says little by itself; whether the right pairs go is best seen by reading some, each beside
the document that was preferred to its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cde_core.train.data.pairs import Pairs
from cde_core.train.rivals.consistency import Margins
from cde_core.train.rivals.groups import Numbers
from cde_core.train.rivals.scoring import Scored

WIDTH = 100
DOMAINS_SHOWN = 40


def kept_by_domain(pairs: Pairs, stay: NDArray[np.bool_]) -> str:
    """A table with a line per domain, the largest first, and one for all."""
    kept = _sums(pairs, stay)
    shares = [f"{k / n:.1%}" for k, n in zip(kept, _sizes(pairs), strict=True)]
    return _by_domain(pairs, {"kept": [f"{k:,.0f}" for k in kept], "share": shares})


def mined_by_domain(pairs: Pairs, negatives: Numbers) -> str:
    """The same of negatives (N, n), of which -1 is none: how many a pair has in the mean."""
    found = _sums(pairs, (negatives >= 0).sum(axis=1))
    means = [f"{k / n:.2f}" for k, n in zip(found, _sizes(pairs), strict=True)]
    return _by_domain(pairs, {"negatives": [f"{k:,.0f}" for k in found], "a pair": means})


def scored_by_domain(pairs: Pairs, scored: Scored) -> str:
    """The same of a teacher's scores.

    Beside the pairs: the mean score of documents, that of negatives, and the share of pairs with
    negatives whose document scores above all of them.
    """
    counts = np.diff(pairs.first_negative)
    pair_of = np.repeat(np.arange(len(pairs)), counts)
    of_negatives = np.bincount(pair_of, weights=scored.negatives, minlength=len(pairs))
    beaten = scored.negatives < scored.documents[pair_of]
    first = (counts > 0) & (np.bincount(pair_of, weights=~beaten, minlength=len(pairs)) == 0)

    def means(amounts: NDArray[np.generic], among: NDArray[np.generic], form: str) -> list[str]:
        both = zip(_sums(pairs, amounts), _sums(pairs, among), strict=True)
        return [format(amount / n, form) if n else "" for amount, n in both]

    columns = {
        "documents": means(scored.documents, np.ones(len(pairs)), ".3f"),
        "negatives": means(of_negatives, counts, ".3f"),
        "document first": means(first, counts > 0, ".1%"),
    }
    return _by_domain(pairs, columns)


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


def _sums(pairs: Pairs, amounts: NDArray[np.generic]) -> list[float]:
    """Sum of amounts (N,) over every domain, and over all."""
    sums = np.bincount(pairs.domain_of, weights=amounts, minlength=len(pairs.domains))
    return [*sums.tolist(), float(sums.sum())]


def _sizes(pairs: Pairs) -> list[int]:
    """Pairs of every domain, and of all; a domain without any counts as one."""
    sizes = np.bincount(pairs.domain_of, minlength=len(pairs.domains))
    return [*np.maximum(sizes, 1).tolist(), max(1, len(pairs))]


def _by_domain(pairs: Pairs, columns: dict[str, list[str]]) -> str:
    """Columns of a cell per domain and one for all, beside how many pairs there are."""
    sizes = np.bincount(pairs.domain_of, minlength=len(pairs.domains))
    names = [name or "(none)" for name in pairs.domains]
    cells = [*zip(*columns.values(), strict=True)]
    order = np.argsort(-sizes, kind="stable")
    rows = [(names[i], f"{sizes[i]:,}", *cells[i]) for i in order if sizes[i]]
    if len(rows) > DOMAINS_SHOWN:
        left_out = len(rows) - DOMAINS_SHOWN
        rows = [*rows[:DOMAINS_SHOWN], (f"… {left_out} more", "", *("" for _ in columns))]
    rows.append(("all domains", f"{sizes.sum():,}", *cells[-1]))
    return _aligned([("domain", "pairs", *columns), *rows])


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Names on the left, numbers on the right."""
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        f"{name:<{first}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for name, *cells in rows
    )
