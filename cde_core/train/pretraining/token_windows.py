"""All texts as one row of tokens on disk, read in windows of equal length.

    texts ──▶ tokenise ──▶ t t t | t t t t t | t … ──▶ windows of n tokens, one after the other
                                 └── a closing token after every text

Windows are full whatever the texts' lengths, so no step computes padding, and a batch has as many
tokens as its recipe says; a window may begin in one text and end in another, as T5's own do. The
file is kept under the digest of the texts and of the tokenizer, beside one that says what was left
out on the way.

Source: Raffel et al. (2020), section 3.1.2 ("packing"), https://arxiv.org/abs/1910.10683
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cde_core.errors import DataError
from cde_core.locks import one_process_at_a_time
from cde_core.recipe import DataConfig
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.source_kinds import texts_named
from cde_core.train.data.sources import SourceCount, count_bad, refuse_unknown_domains
from cde_core.train.data.text_files import mapped
from cde_core.train.data.text_sources import Text, TextSource

FORMAT = "cde_core tokens 1"
TEXTS_AT_ONCE = 1_024
UNFINISHED = ".unfinished"


@dataclass(frozen=True, slots=True)
class Frame:
    """What a tokenizer puts around every text."""

    before: tuple[int, ...]
    """Such as [CLS]; T5's puts nothing."""

    after: tuple[int, ...]
    """Such as [SEP], or </s> of T5."""

    @property
    def end(self) -> int:
        """The token that closes a text."""
        return self.after[-1]


def frame_of(tokenizer: Tokenizer) -> Frame:
    """What a tokenizer puts around a text.

    Raises:
        DataError: If it closes a text with nothing.
    """
    around = tokenizer.encode("").ids
    inside = tokenizer.encode("a")
    before = next((i for i, special in enumerate(inside.special_tokens_mask) if not special), 0)
    if len(around) == before:
        raise DataError(
            "The tokenizer closes a text with no token of its own, such as </s>, so a model cannot "
            "learn where to stop; take another tokenizer."
        )
    return Frame(tuple(around[:before]), tuple(around[before:]))


@dataclass(frozen=True, slots=True)
class TokenWindows:
    """Windows of n tokens each; what is left at the end is not used."""

    tokens: NDArray[np.int32]
    """All tokens, on disk."""

    size: int
    """Tokens of a window (n)."""

    digest: str
    """Of the texts and the tokenizer."""

    bad_rows: int = 0
    """Rows that hold no text, and were skipped."""

    def __len__(self) -> int:
        return len(self.tokens) // self.size

    def __getitem__(self, number: int) -> NDArray[np.int32]:
        start = range(len(self))[number] * self.size
        return np.asarray(self.tokens[start : start + self.size])


def prepare_windows(
    data: DataConfig,
    tokenizer: Tokenizer,
    *,
    size: int,
    cache: Path,
    progress: Callable[[int], object] | None = None,
) -> TokenWindows:
    """Tokenise the texts of all sources, or find what was tokenised before.

    Args:
        data: The sources, and what is wanted of them; prefixes are not used.
        tokenizer: Without limits of its own.
        size: Tokens of a window.
        cache: Tokens lie in `tokens` below this folder.
        progress: Told how many more texts were read.

    Raises:
        ConfigError: If there is no source of a name, or no text has a domain that is named.
        DataError: If a source cannot be read or has a bad row, or nothing is left.
    """
    folder = cache / "tokens"
    folder.mkdir(parents=True, exist_ok=True)
    revisions = Revisions(folder / "revisions.json")
    sources = [texts_named(name) for name in data.sources]
    key = _key(sources, revisions, data, tokenizer)
    file = folder / f"{key}.i32"
    with one_process_at_a_time(folder / f"{key}.lock"):
        bad_rows = _remembered(file)
        if bad_rows is None:
            count = SourceCount(", ".join(data.sources))
            unfinished = file.with_name(file.name + UNFINISHED)
            _write(_wanted(sources, data, count), tokenizer, unfinished, progress)
            unfinished.replace(file)
            bad_rows = _remember(file, count.bad_rows)
    windows = TokenWindows(mapped(file, "<i4"), size, key, bad_rows)
    if not len(windows):
        raise DataError(
            f"{', '.join(data.sources)} holds {len(windows.tokens):,} tokens, fewer than the "
            f"{size:,} that a model reads at once; name more texts, or lower model.max_length."
        )
    return windows


def _key(
    sources: Sequence[TextSource], revisions: Revisions, data: DataConfig, tokenizer: Tokenizer
) -> str:
    options = [sorted(data.only_domains), sorted(data.exclude_domains)]
    wanted = [*options, data.skip_bad_rows, data.most_per_source]
    read = [source.revision(revisions) for source in sources]
    everything = [FORMAT, wanted, read, tokenizer.to_str()]
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()[:32]


def _remembered(file: Path) -> int | None:
    """Rows that were skipped as tokens were written; None if they were not, or nobody said."""
    try:
        said = json.loads(_said_beside(file).read_text(encoding="utf-8"))
        return int(said["bad_rows"]) if file.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(file: Path, bad_rows: int) -> int:
    said = _said_beside(file)
    unfinished = said.with_name(said.name + UNFINISHED)
    unfinished.write_text(json.dumps({"bad_rows": bad_rows}) + "\n", encoding="utf-8")
    unfinished.replace(said)
    return bad_rows


def _said_beside(file: Path) -> Path:
    return file.with_suffix(".json")


def _wanted(sources: Sequence[TextSource], data: DataConfig, count: SourceCount) -> Iterator[str]:
    """The texts that are wanted, of all sources; complains at the end if that was a mistake."""
    domains: set[str] = set()
    for source in sources:
        texts = _good(source, count, domains, skip=data.skip_bad_rows)
        chosen = (text.text for text in texts if _is_in(text, data))
        for number, text in enumerate(chosen, start=1):
            yield text
            if number == data.most_per_source:
                count.read_to_the_end = False  # domains that come later are not known
                break
    if count.read_to_the_end:
        refuse_unknown_domains(data.only_domains, data.exclude_domains, domains, "text")


def _good(
    source: TextSource, count: SourceCount, domains: set[str], *, skip: bool
) -> Iterator[Text]:
    """The texts of one source; counts bad rows, and collects domains."""
    for row in source.read():
        if isinstance(row, Text):
            domains.add(row.domain)
            yield row
        else:
            count_bad(row, count, skip=skip)


def _is_in(text: Text, data: DataConfig) -> bool:
    only, domain = data.only_domains, text.domain
    return domain not in data.exclude_domains and (not only or domain in only)


def _write(
    texts: Iterator[str],
    tokenizer: Tokenizer,
    file: Path,
    progress: Callable[[int], object] | None,
) -> None:
    end = frame_of(tokenizer).end
    with file.open("wb") as out:
        while some := list(islice(texts, TEXTS_AT_ONCE)):
            for one in tokenizer.encode_batch_fast(some, add_special_tokens=False):
                np.asarray([*one.ids, end], dtype="<i4").tofile(out)
            if progress:
                progress(len(some))
        out.flush()
        os.fsync(out.fileno())
