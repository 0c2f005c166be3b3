"""`cde-train mine`: give every pair hard negatives.

sources ──▶ WhichPairs ──▶ mined_in_cache ──▶ write_selected ──▶ OUT, and a table
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from cde_core.commands.choosing import (
    FLAT,
    HOW_READ,
    WHICH_PAIRS,
    HowRead,
    Sources,
    WhichPairs,
    say,
)


def mine(
    sources: Sources,
    /,
    *,
    out: Path,
    model: str = "minilm",
    negatives: int = 9,
    depth: int = 200,
    choose: Literal["highest", "drawn"] = "highest",
    margin: float | None = None,
    which: Annotated[WhichPairs, FLAT] = WHICH_PAIRS,
    how: Annotated[HowRead, FLAT] = HOW_READ,
) -> None:
    """Give every pair hard negatives: documents of its domain that a model ranks high.

    Answers to a query of the same text are left out. Negatives that the pairs had are replaced. The
    same command goes on where it stopped; the folder that it writes is a source of pairs.

    Args:
        sources: Files, folders, hub:ORG/NAME, docs.
        out: Folder for the pairs with their negatives.
        model: Who ranks: a model's folder or name, a checkpoint, minilm, tfidf, encoder:NAME.
        negatives: Negatives of a pair.
        depth: Highest-ranked documents that are looked at.
        choose: Of those, the highest-ranked, or some by chance, as ANCE does.
        margin: Leave out what scores at least the answer's score plus this, such as -0.05.
        which: What is read of the sources.
        how: How the model reads, and where.
    """
    from cde_core.train.data.pairs import require_room_for_pairs
    from cde_core.train.log import WorkBar
    from cde_core.train.preparation import training_cache
    from cde_core.train.rivals.judges import judge_named
    from cde_core.train.rivals.mining import Mining, mined_in_cache, with_negatives
    from cde_core.train.rivals.selection_report import mined_by_domain
    from cde_core.train.rivals.written import write_selected

    settings = Mining(negatives=negatives, depth=depth, choose=choose, margin=margin, seed=how.seed)
    reading = how.settings()
    require_room_for_pairs(out)
    pairs = which.of(sources)
    judge = judge_named(model, pairs=pairs, **reading)
    with WorkBar(2 * len(pairs), f"{model} reads the pairs", say) as progress:
        found = mined_in_cache(pairs, judge, settings, cache=training_cache(), progress=progress)
    made_by = {
        "command": "cde-train mine",
        "sources": sources,
        "pairs": pairs.digest,
        "model": model,
        "fingerprint": judge.fingerprint,
        **how.said(),
        **dataclasses.asdict(settings),
    }
    write_selected(with_negatives(pairs, found), out, made_by=made_by, cache=training_cache())
    print(mined_by_domain(pairs, found))
    print(
        f"\n{len(pairs):,} pairs: {out}\n"
        f"Train on them with: --data.sources {out} --batches.hard-negatives {negatives}"
    )
