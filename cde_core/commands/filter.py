"""`cde-train filter`: keep the pairs that a model agrees with.

sources ──▶ WhichPairs ──▶ margins_of ──▶ write_selected ──▶ OUT, a table, and some dropped pairs
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from cde_core.commands.choosing import (
    FLAT,
    HOW_READ,
    WHICH_PAIRS,
    HowRead,
    Sources,
    WhichPairs,
    say,
)
from cde_core.settings.bounds import at_least


def filter(
    sources: Sources,
    /,
    *,
    out: Path,
    surrogate: str = "minilm",
    keep: int = 2,
    pool: int = 1_000_000,
    across_domains: bool = False,
    show: int = 0,
    which: Annotated[WhichPairs, FLAT] = WHICH_PAIRS,
    how: Annotated[HowRead, FLAT] = HOW_READ,
) -> None:
    """Keep the pairs whose document is among the best of a pool for its query, as E5 did.

    The same command goes on where it stopped. The folder that it writes is a source of pairs.

    Args:
        sources: Files, folders, hub:ORG/NAME, docs.
        out: Folder for the pairs that stay.
        surrogate: Who scores: minilm, a model's folder or name, tfidf, encoder:NAME.
        keep: A pair stays if its document is among so many.
        pool: Documents drawn at random to compare with, of each domain; fewer: all.
        across_domains: Draw one pool from all domains.
        show: Dropped pairs to print, by chance.
        which: What is read of the sources.
        how: How the surrogate reads, and where.
    """
    from cde_core.train.data.pairs import require_room_for_pairs
    from cde_core.train.log import WorkBar
    from cde_core.train.preparation import training_cache
    from cde_core.train.rivals.consistency import Consistency, margins_of
    from cde_core.train.rivals.judges import judge_named
    from cde_core.train.rivals.selection_report import dropped_pairs, kept_by_domain
    from cde_core.train.rivals.written import write_selected

    at_least("--show", show, 0)
    seed = how.seed
    settings = Consistency(keep=keep, pool=pool, across_domains=across_domains, seed=seed)
    reading = how.settings()
    require_room_for_pairs(out)
    pairs = which.of(sources)
    judge = judge_named(surrogate, pairs=pairs, **reading)
    with WorkBar(2 * len(pairs), f"{surrogate} reads the pairs", say) as progress:
        margins = margins_of(pairs, judge, settings, cache=training_cache(), progress=progress)
    made_by = {
        "command": "cde-train filter",
        "sources": sources,
        "pairs": pairs.digest,
        "surrogate": surrogate,
        "fingerprint": judge.fingerprint,
        **how.said(),
        **dataclasses.asdict(settings),
    }
    stay = (pair for pair, stays in zip(pairs, margins.stay, strict=True) if stays)
    written = write_selected(stay, out, made_by=made_by, cache=training_cache())
    print(kept_by_domain(pairs, margins.stay))
    if show:
        print(f"\n{dropped_pairs(pairs, margins, some=show, seed=seed)}")
    print(f"\n{len(written):,} pairs: {out}\nTrain on them with: --data.sources {out}")
