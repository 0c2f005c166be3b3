"""The commands that choose among pairs and documents before training: filter, mine.

    sources ──▶ filter ──▶ pairs ──▶ mine ──▶ pairs with hard negatives ──▶ --data.sources

What they import is imported inside, so that `--help` waits for nothing.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from cde_core.errors import ConfigError

if TYPE_CHECKING:
    from cde_core.train.data.pairs import Pairs

Sources = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE ...")]


def filter(
    sources: Sources,
    /,
    *,
    out: Path,
    surrogate: str = "minilm",
    keep: int = 2,
    pool: int = 1_000_000,
    across_domains: bool = False,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    max_length: int = 0,
    show: int = 0,
    only_domains: tuple[str, ...] = (),
    exclude_domains: tuple[str, ...] = (),
    skip_bad_rows: bool = False,
    most_per_source: int = 0,
    seed: int = 0,
    device: str = "auto",
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
        query_prefix: What queries carry in front, such as "query: "; by default the model's own.
        document_prefix: What documents carry in front, such as "passage: ".
        max_length: Tokens that a model reads of a text; 0: as many as it can.
        show: Dropped pairs to print, by chance.
        only_domains: Domains to keep; none named: all.
        exclude_domains: Domains to leave out.
        skip_bad_rows: Count rows that cannot be read, instead of stopping at the first.
        most_per_source: Pairs read of every source, from its beginning; 0: all.
        seed: Of the pool.
        device: Where a model computes: auto, cpu, cuda.
    """
    from cde_core.train.log import WorkBar
    from cde_core.train.preparation import training_cache
    from cde_core.train.rivals.consistency import Consistency, margins_of
    from cde_core.train.rivals.judges import judge_named
    from cde_core.train.rivals.selection_report import dropped_pairs, kept_by_domain
    from cde_core.train.rivals.written import write_selected

    settings = Consistency(keep=keep, pool=pool, across_domains=across_domains, seed=seed)
    prefixes = _prefixes(query_prefix, document_prefix)
    pairs = _pairs(sources, only_domains, exclude_domains, skip_bad_rows, most_per_source)
    judge = judge_named(
        surrogate,
        pairs=pairs,
        device=None if device == "auto" else device,
        prefixes=prefixes,
        max_length=max_length,
        seed=seed,
    )
    with WorkBar(2 * len(pairs), f"{surrogate} reads the pairs", _say) as progress:
        margins = margins_of(pairs, judge, settings, cache=training_cache(), progress=progress)
    made_by = {
        "command": "cde-train filter",
        "sources": sources,
        "pairs": pairs.digest,
        "surrogate": surrogate,
        "fingerprint": judge.fingerprint,
        "prefixes": prefixes,
        "max_length": max_length,
        **dataclasses.asdict(settings),
    }
    stay = (pair for pair, stays in zip(pairs, margins.stay, strict=True) if stays)
    written = write_selected(stay, out, made_by=made_by, cache=training_cache())
    print(kept_by_domain(pairs, margins.stay))
    if show:
        print(f"\n{dropped_pairs(pairs, margins, some=show, seed=seed)}")
    print(f"\n{len(written):,} pairs: {out}\nTrain on them with: --data.sources {out}")


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
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    max_length: int = 0,
    only_domains: tuple[str, ...] = (),
    exclude_domains: tuple[str, ...] = (),
    skip_bad_rows: bool = False,
    most_per_source: int = 0,
    seed: int = 0,
    device: str = "auto",
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
        query_prefix: What queries carry in front, such as "query: "; by default the model's own.
        document_prefix: What documents carry in front, such as "passage: ".
        max_length: Tokens that a model reads of a text; 0: as many as it can.
        only_domains: Domains to keep; none named: all.
        exclude_domains: Domains to leave out.
        skip_bad_rows: Count rows that cannot be read, instead of stopping at the first.
        most_per_source: Pairs read of every source, from its beginning; 0: all.
        seed: Of the draw, and of the documents that a contextual model reads first.
        device: Where a model computes: auto, cpu, cuda.
    """
    from cde_core.train.log import WorkBar
    from cde_core.train.preparation import training_cache
    from cde_core.train.rivals.judges import judge_named
    from cde_core.train.rivals.mining import Mining, mined_in_cache, with_negatives
    from cde_core.train.rivals.selection_report import mined_by_domain
    from cde_core.train.rivals.written import write_selected

    settings = Mining(negatives=negatives, depth=depth, choose=choose, margin=margin, seed=seed)
    prefixes = _prefixes(query_prefix, document_prefix)
    pairs = _pairs(sources, only_domains, exclude_domains, skip_bad_rows, most_per_source)
    judge = judge_named(
        model,
        pairs=pairs,
        device=None if device == "auto" else device,
        prefixes=prefixes,
        max_length=max_length,
        seed=seed,
    )
    with WorkBar(2 * len(pairs), f"{model} reads the pairs", _say) as progress:
        found = mined_in_cache(pairs, judge, settings, cache=training_cache(), progress=progress)
    made_by = {
        "command": "cde-train mine",
        "sources": sources,
        "pairs": pairs.digest,
        "model": model,
        "fingerprint": judge.fingerprint,
        "prefixes": prefixes,
        "max_length": max_length,
        **dataclasses.asdict(settings),
    }
    write_selected(with_negatives(pairs, found), out, made_by=made_by, cache=training_cache())
    print(mined_by_domain(pairs, found))
    print(
        f"\n{len(pairs):,} pairs: {out}\n"
        f"Train on them with: --data.sources {out} --batches.hard-negatives {negatives}"
    )


def _pairs(
    sources: Sequence[str],
    only_domains: tuple[str, ...],
    exclude_domains: tuple[str, ...],
    skip_bad_rows: bool,
    most_per_source: int,
) -> Pairs:
    from cde_core.recipe import DataConfig, Recipe
    from cde_core.train.preparation import read_pairs

    if not sources:
        raise ConfigError("Name what to read: files, folders, hub:ORG/NAME or docs.")
    asked = DataConfig(
        sources=tuple(sources),
        only_domains=only_domains,
        exclude_domains=exclude_domains,
        skip_bad_rows=skip_bad_rows,
        most_per_source=most_per_source,
    )
    return read_pairs(Recipe(data=asked), _say)


def _prefixes(query: str | None, document: str | None) -> tuple[str, str] | None:
    """Both prefixes, or None where neither is given."""
    if query is None and document is None:
        return None
    return query or "", document or ""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
