"""`cde-eval cache`: what is kept on disk so that nothing is computed twice, and deleting it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from cde_core.errors import ConfigError

if TYPE_CHECKING:
    from cde_eval.cached import Entry

Action = Annotated[Literal["list", "prune"], tyro.conf.Positional]
Kinds = tuple[Literal["vectors", "contexts", "corpora", "documentation", "train", "leftovers"], ...]

MEGABYTE, GIGABYTE = 1e6, 1e9


def cache(
    action: Action,
    /,
    *,
    kind: Kinds = (),
    model: str | None = None,
    older_than: float | None = None,
    keep_under: float | None = None,
    all: bool = False,
    dry_run: bool = False,
) -> None:
    """List what the cache folder holds, or delete some of it; all of it can be made again.

    The folder is $CDE_EVAL_CACHE, or ~/.cache/cde-eval. `prune` deletes what all the options given
    agree on, the least recently used first, and what killed runs left half-written more than a day
    ago. What a run is using is kept, and so is everything that is not ours.

    Args:
        action: list or prune.
        kind: Only these kinds; train: pairs, and what is made of them before training (vectors,
            clusters, ranks, hard negatives, a teacher's scores), and tokens.
        model: Only what belongs to a model whose name, revision or fingerprint contains this.
        older_than: prune: only what was not used for so many days.
        keep_under: prune: delete no more than it takes to bring what --kind and --model choose
            below so many GB.
        all: prune: delete everything.
        dry_run: prune: delete nothing, and say what would be.
    """
    import time

    from cde_core.model.context_cache import cache_folder
    from cde_eval.cached import DAY, cached, matching
    from cde_eval.pruning import prune

    numbers = {"--older-than": older_than, "--keep-under": keep_under}
    _check(action, numbers, {"--all": all, "--dry-run": dry_run}, anything=bool(kind or model))
    folder, now = cache_folder(), time.time()
    entries = list(cached(folder, now))
    chosen = matching(entries, kinds=kind, model=model)
    if action == "list":
        print(f"{_table(chosen)}in {folder}" if chosen else f"Nothing of the kind is in {folder}.")
        return
    leftovers = [entry for entry in entries if entry.kind == "leftovers"]
    others = [entry for entry in chosen if entry.kind != "leftovers"]
    excess = None
    if keep_under is not None:
        excess = sum(entry.size for entry in others) - keep_under * GIGABYTE
    if older_than is not None:
        others = [entry for entry in others if entry.used < now - older_than * DAY]
    outcomes = [
        *prune(leftovers, dry_run=dry_run),
        *prune(others, excess=excess, dry_run=dry_run),
    ]
    for entry, why in outcomes:
        if why:
            print(f"Kept, {why}: {entry.kind}, {entry.what}")
    gone = [entry for entry, why in outcomes if not why]
    done = "would be deleted from" if dry_run else "deleted from"
    print(f"{_table(gone)}{done} {folder}" if gone else f"Nothing {done} {folder}.")


def _check(
    action: str, numbers: dict[str, float | None], flags: dict[str, bool], *, anything: bool
) -> None:
    """Refuse options that mean nothing, and a `prune` that nothing limits."""
    limits = {option: number for option, number in numbers.items() if number is not None}
    for option, number in limits.items():
        if not number >= 0:
            raise ConfigError(f"{option} is {number:g}; give 0 or more.")
    given = [*limits, *(option for option, set_ in flags.items() if set_)]
    if action == "list" and given:
        raise ConfigError(
            f"{given[0]} is for prune; `cde-eval cache prune … --dry-run` lists what would go."
        )
    if action == "prune" and not (anything or limits or flags["--all"]):
        raise ConfigError(
            "prune was not told what to delete; choose with --kind, --model, --older-than or "
            "--keep-under, or say --all."
        )


def _table(entries: list[Entry]) -> str:
    """A line per entry, the least recently used of each kind first, and a line per kind."""
    from datetime import datetime

    import pandas as pd

    from cde_eval.cached import KINDS

    rows = [
        {
            "kind": entry.kind,
            "what": entry.what,
            "MB": _megabytes([entry]),
            "last used": datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d"),
        }
        for entry in sorted(entries, key=lambda entry: (KINDS.index(entry.kind), entry.used))
    ]
    table = pd.DataFrame(rows).to_markdown(
        index=False,
        tablefmt="simple",
        disable_numparse=True,
        colalign=("left", "left", "right", "left"),
    )
    kinds = {kind: [entry for entry in entries if entry.kind == kind] for kind in KINDS}
    sums = [f"{kind}: {len(of):,}, {_megabytes(of)} MB\n" for kind, of in kinds.items() if of]
    return f"{table}\n\n{''.join(sums)}all: {len(entries):,}, {_megabytes(entries)} MB "


def _megabytes(entries: Iterable[Entry]) -> str:
    return f"{sum(entry.size for entry in entries) / MEGABYTE:,.1f}"
