"""Texts alone, where no query is needed: a corpus, rows with a text, or the documents of pairs.

    BEIR folder  "x.jsonl" (text, title)  "x.parquet"  folder  any source of pairs
         └──────────────┴────────────────────┴───────────┴──────────┘
                  TextSource ──▶ read() ──▶ Text or BadRow, one at a time

What is learnt from texts alone (spans that were cut out, crops that belong together) reads them
here. Of a BEIR folder that is the whole corpus, whatever is judged of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cde_core.train.data.pairs import Pair
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_files import domain_of_file, lines, read_rows
from cde_core.train.data.row_layouts import TEXT, BadRow, is_layout, pair_or_bad


@dataclass(frozen=True, slots=True)
class Text:
    """One text."""

    text: str
    """Never blank."""

    domain: str
    """Where it comes from."""


class TextSource(Protocol):
    """A place that texts come from."""

    def revision(self, revisions: Revisions) -> str:
        """What decides its texts; asked for before they are read."""

    def read(self) -> Iterator[Text | BadRow]:
        """Every text, in order."""


class RowTexts:
    """JSON lines, one after the other: `text` with its `title`, or the `document` of a pair."""

    def __init__(self, files: tuple[Path, ...], *, domain: str = "") -> None:
        """Name files; nothing is read yet. Without a domain, each file's name is that."""
        self._files, self._domain = files, domain

    def revision(self, revisions: Revisions) -> str:
        """Checksum of every file, and its domain."""
        named = [[self._domain_of(file), revisions.of_file(file)] for file in self._files]
        return f"texts {json.dumps(named)}"

    def read(self) -> Iterator[Text | BadRow]:
        """The text of every row; blank ones are left out, as corpora have some.

        Raises:
            DataError: If a file is damaged.
        """
        for file in self._files:
            for number, line in lines(file):
                if line.isspace():
                    continue
                try:
                    row = json.loads(line.decode("utf-8-sig"))
                except (ValueError, RecursionError) as error:
                    yield BadRow(f"{file}, line {number}", f"this is not JSON ({error})")
                    continue
                yield from self._texts(row, file, number)

    def _texts(self, row: object, file: Path, number: int) -> Iterator[Text | BadRow]:
        domain = self._domain_of(file)
        if isinstance(row, Mapping) and isinstance(row.get("text"), str):
            if text := _with_title(row):
                yield Text(text, domain)
            return
        pair = pair_or_bad(row, domain, file, "line", number)
        yield pair if isinstance(pair, BadRow) else Text(pair.document, pair.domain)

    def _domain_of(self, file: Path) -> str:
        return self._domain or domain_of_file(file)


class SourceOfRows(Protocol):
    """A place that pairs come from."""

    def revision(self, revisions: Revisions) -> str:
        """What decides its pairs."""

    def read(self) -> Iterator[Pair | BadRow]:
        """Every row, in order."""


class DocumentsOf:
    """The documents of pairs, each once."""

    def __init__(self, source: SourceOfRows) -> None:
        """Name the source of pairs; nothing is read yet."""
        self._source = source

    def revision(self, revisions: Revisions) -> str:
        """That of the pairs."""
        return f"documents of {self._source.revision(revisions)}"

    def read(self) -> Iterator[Text | BadRow]:
        """Every document where it comes first."""
        return _documents_once(self._source.read())


class FileTexts:
    """Files of rows of any format, one after the other: texts, or pairs as in `DocumentsOf`."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        """Name files; nothing is read yet."""
        self._files = files

    def revision(self, revisions: Revisions) -> str:
        """Checksum of every file, and its name as far as that is a domain."""
        named = [[domain_of_file(file), revisions.of_file(file)] for file in self._files]
        return f"documents of {json.dumps(named)}"

    def read(self) -> Iterator[Text | BadRow]:
        """Every text that is not blank, and every document where it comes first."""
        rows = (row for file in self._files for row in read_rows(file, _text_or_pair))
        return _documents_once(row for row in rows if row is not None)


def _text_or_pair(
    row: object, domain: str, place: object, unit: str, number: int
) -> Text | Pair | BadRow | None:
    """The text of a row without columns of a pair, with its title; None if it is blank."""
    if isinstance(row, Mapping) and not is_layout(row) and isinstance(row.get(TEXT), str):
        text = _with_title(row)
        return Text(text, domain) if text else None
    return pair_or_bad(row, domain, place, unit, number)


def _documents_once(rows: Iterable[Text | Pair | BadRow]) -> Iterator[Text | BadRow]:
    """The documents of pairs, each where it comes first; all else as it is."""
    seen: set[bytes] = set()
    for row in rows:
        if not isinstance(row, Pair):
            yield row
            continue
        digest = hashlib.sha256(row.document.encode("utf-8", "surrogatepass")).digest()[:16]
        if digest not in seen:
            seen.add(digest)
            yield Text(row.document, row.domain)


def _with_title(row: Mapping[str, Any]) -> str:
    return f"{row.get('title') or ''} {row['text']}".strip()
