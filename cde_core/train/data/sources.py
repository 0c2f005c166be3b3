"""From the sources that a recipe names to pairs on disk, once for the same content and options.

    sources ──▶ revisions ──▶ key ──▶ cache/pairs/KEY there? ──▶ Prepared
                                            │ no                    ▲
                 rows ──▶ pairs ──▶ domains wanted? ──▶ write_pairs ┘

A key is made of what the sources hold, not of where they are: a file that was moved is not read
again, one that was changed is. Whatever is dropped on the way is counted and said: rows that are no
pair stop the reading unless asked otherwise, and a domain that nobody has is a mistake in the name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cde_core.errors import ConfigError, DataError, did_you_mean
from cde_core.locks import one_process_at_a_time
from cde_core.train.data.pairs import UNFINISHED, Pair, Pairs, write_pairs
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_layouts import BadRow
from cde_core.train.data.source_kinds import Source, source_named

FORMAT = "cde_core prepared pairs 2"
"""Raise the number whenever the same sources would give other pairs."""

BAD_ROWS_SHOWN = 5
PAIRS_TOLD_AT_ONCE = 1_000

Progress = Callable[[int], object]
"""Told how many more pairs were read."""


@dataclass(slots=True)
class SourceCount:
    """What became of the rows of one source."""

    name: str
    """As the recipe calls it."""

    pairs: int = 0
    """Rows that were kept."""

    left_out: int = 0
    """Pairs of domains that are not wanted."""

    bad_rows: int = 0
    """Rows that are no pair."""

    examples: list[str] = field(default_factory=list)
    """The first few of those, with place and reason."""

    read_to_the_end: bool = True
    """False where it was left after as many pairs as were asked for."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Pairs, and how they came about."""

    pairs: Pairs
    sources: tuple[SourceCount, ...]

    @property
    def bad_rows(self) -> int:
        """Rows of all sources that were skipped."""
        return sum(source.bad_rows for source in self.sources)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Options that decide which rows become pairs."""

    only: frozenset[str]
    exclude: frozenset[str]
    skip_bad_rows: bool
    most: int
    twice: bool

    def domain(self, name: str) -> bool:
        return name not in self.exclude and (not self.only or name in self.only)


def prepare_pairs(
    sources: Sequence[str],
    *,
    only_domains: Collection[str] = (),
    exclude_domains: Collection[str] = (),
    skip_bad_rows: bool = False,
    most_per_source: int = 0,
    twice: bool = False,
    cache: Path,
    progress: Progress | None = None,
) -> Prepared:
    """Read all sources, in their order, or find what was read before.

    Args:
        sources: Files (.jsonl, .jsonl.gz, .parquet), folders of such files, BEIR folders (their
            train split), folders of written pairs, names of plug-ins ("docs", "docs:numpy,scipy"),
            or data sets on the hub ("hub:org/name", "hub:org/name:part"). row_layouts.py says what
            rows may be.
        only_domains: Domains to keep; none: all.
        exclude_domains: Domains to leave out.
        skip_bad_rows: Count rows that are no pair, instead of stopping at the first.
        most_per_source: Pairs to keep of every source, from its beginning; 0: all. Domains that
            come later are not known then, and their names are not checked.
        twice: Pair every text of every pair, negatives left out, with itself.
        cache: Pairs lie in `pairs` below this folder.
        progress: Told how many more pairs were read; not called where nothing is.

    Raises:
        ConfigError: If there is no source of a name, or no pair has a domain that is named.
        DataError: If a source cannot be read, has a bad row, changes meanwhile, or nothing is left.
    """
    if not sources:
        raise ConfigError("data.sources is empty; name a file, a folder, hub:ORG/NAME, or docs.")
    wanted = _Wanted(
        frozenset(only_domains), frozenset(exclude_domains), skip_bad_rows, most_per_source, twice
    )
    folder = _made(cache / "pairs")
    revisions = Revisions(folder / "revisions.json")
    opened = [source_named(name) for name in sources]
    key = _key(opened, revisions, wanted)
    with one_process_at_a_time(folder / f"{key}.lock"):
        found = _remembered(folder / key, sources)
        if found:
            return found
        for leftover in folder.glob(f"{key}.*{UNFINISHED}"):  # of a run that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        counts = tuple(SourceCount(name) for name in sources)
        chosen = _all_chosen(opened, counts, wanted, progress)
        unchanged = _unless_changed(chosen, lambda: _key(opened, revisions, wanted) == key)
        pairs = write_pairs(unchanged, folder / key)
        _remember(folder / key, counts)
    return Prepared(pairs, counts)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be made ({error.strerror}); set CDE_EVAL_CACHE to a folder that can."
        ) from error
    return folder


def _key(sources: Sequence[Source], revisions: Revisions, wanted: _Wanted) -> str:
    """Digest of the options and of what the sources hold."""
    options = [
        *(sorted(wanted.only), sorted(wanted.exclude), wanted.skip_bad_rows),
        *(wanted.most, wanted.twice),
    ]
    everything = [FORMAT, options, [source.revision(revisions) for source in sources]]
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()[:32]


def _remembered(folder: Path, names: Sequence[str]) -> Prepared | None:
    """What was read before; None if that is not there, or not whole."""
    try:
        pairs = Pairs.open(folder)
        counts = json.loads(_counts_beside(folder).read_text(encoding="utf-8"))
        renamed = [{**count, "name": name} for count, name in zip(counts, names, strict=True)]
        return Prepared(pairs, tuple(SourceCount(**count) for count in renamed))
    except (DataError, OSError, ValueError, TypeError):
        return None


def _remember(folder: Path, counts: Sequence[SourceCount]) -> None:
    file = _counts_beside(folder)
    unfinished = file.with_name(file.name + UNFINISHED)
    unfinished.write_text(json.dumps([asdict(count) for count in counts], indent=2) + "\n")
    unfinished.replace(file)


def _counts_beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _all_chosen(
    sources: Sequence[Source],
    counts: Sequence[SourceCount],
    wanted: _Wanted,
    progress: Progress | None,
) -> Iterator[Pair]:
    """The pairs that are wanted, of all sources; complains at the end if that was a mistake."""
    domains: set[str] = set()
    untold = 0
    for source, count in zip(sources, counts, strict=True):
        for pair in _chosen(source, count, wanted, domains):
            yield pair
            untold += 1
            if progress and untold == PAIRS_TOLD_AT_ONCE:
                progress(untold)
                untold = 0
    if progress and untold:
        progress(untold)
    if all(count.read_to_the_end for count in counts):
        refuse_unknown_domains(wanted.only, wanted.exclude, domains)
    if not any(count.pairs for count in counts):
        raise DataError(_why_nothing_is_left(counts))


def _chosen(
    source: Source, count: SourceCount, wanted: _Wanted, domains: set[str]
) -> Iterator[Pair]:
    """The pairs of one source that are wanted; counts them all, and collects their domains."""
    for found in source.read():
        row: Pair | BadRow = found
        if isinstance(found, BadRow) and found.alone and wanted.twice:
            row = found.alone
        if isinstance(row, BadRow):
            count_bad(row, count, skip=wanted.skip_bad_rows)
            continue
        domains.add(row.domain)
        if not wanted.domain(row.domain):
            count.left_out += 1
            continue
        for pair in _with_themselves(row) if wanted.twice else (row,):
            if wanted.most and count.pairs == wanted.most:
                count.read_to_the_end = False
                return
            count.pairs += 1
            yield pair


def _with_themselves(pair: Pair) -> Iterator[Pair]:
    """Each of a pair's two texts, once as the query and once as the document."""
    for text in dict.fromkeys((pair.query, pair.document)):
        yield Pair(text, text, domain=pair.domain)


def count_bad(row: BadRow, count: SourceCount, *, skip: bool) -> None:
    """Count a row that cannot be used, and keep the first few.

    Raises:
        DataError: If such rows are not to be skipped.
    """
    if not skip:
        raise DataError(f"{row.where}: {row.why}; fix the row, or pass --skip-bad-rows.")
    count.bad_rows += 1
    if len(count.examples) < BAD_ROWS_SHOWN:
        count.examples.append(f"{row.where}: {row.why}")


def _unless_changed(pairs: Iterator[Pair], unchanged: Callable[[], bool]) -> Iterator[Pair]:
    yield from pairs
    if not unchanged():
        raise DataError("A source changed while it was read; repeat the command when it is whole.")


def refuse_unknown_domains(
    only: Collection[str], exclude: Collection[str], domains: Collection[str], unit: str = "pair"
) -> None:
    """Refuse names of domains, wanted or not, that are not among those of all pairs, or texts.

    Raises:
        ConfigError: With the nearest name, and some of those that there are.
    """
    _refuse_unknown("data.only_domains", {*only} - {*domains}, domains, unit)
    _refuse_unknown("data.exclude_domains", {*exclude} - {*domains}, domains, unit)


def _refuse_unknown(
    what: str, unknown: Collection[str], domains: Collection[str], unit: str
) -> None:
    if not unknown or not domains:
        return
    name, shown = min(unknown), sorted(domains)[:10]
    more = "" if len(domains) <= len(shown) else f" and {len(domains) - len(shown):,} more"
    raise ConfigError(
        f"{what} names {name!r}, but no {unit} has that domain.{did_you_mean(name, domains)} "
        f"The domains are {', '.join(shown)}{more}."
    )


def _why_nothing_is_left(counts: Sequence[SourceCount]) -> str:
    left_out, bad = sum(c.left_out for c in counts), sum(c.bad_rows for c in counts)
    example = next((f", such as {c.examples[0]}" for c in counts if c.examples), "")
    return (
        f"No pairs are left of {', '.join(c.name for c in counts)}: {left_out:,} are of domains "
        f"that are not wanted, and {bad:,} rows are bad{example}; mend the sources, "
        "data.only_domains, or data.exclude_domains."
    )
