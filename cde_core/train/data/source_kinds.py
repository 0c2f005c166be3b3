"""Every kind of place that pairs come from, read row by row.

    "docs:numpy"  "x.jsonl.gz"  "x.parquet"  "folder"  "BEIR folder"  "hub:org/name:part"
         └─────────────┴────────────┴───────────┴────────────┴───────────────┘
                   source_named ──▶ Source ──▶ read() ──▶ Pair or BadRow, one at a time
                   texts_named ──▶ TextSource ──▶ "crops:" and any of these: crops of its texts

A name before the first ":" that an installed package declares goes before a path of that name, so
that a recipe means the same in every folder; "./docs" is the folder. A row that is no pair does
not end the reading: what to do about it is for the caller to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from cde_core.errors import ConfigError, DataError, did_you_mean
from cde_core.plugins import plugin, plugin_names
from cde_core.train.data.beir_source import BeirSource, is_beir
from cde_core.train.data.crops import CropSource
from cde_core.train.data.hub_source import HubSource
from cde_core.train.data.pairs import ABOUT, Pair, Pairs
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_files import SUFFIXES, domain_of_file, files_in, read_rows
from cde_core.train.data.row_layouts import BadRow, pair_or_bad
from cde_core.train.data.text_sources import DocumentsOf, FileTexts, RowTexts, TextSource

PLUGINS = "cde_core.sources"


class SourceOfPairs(Protocol):
    """What a plug-in of the group `cde_core.sources` gives for its argument."""

    @property
    def revision(self) -> str:
        """Changes whenever the pairs do."""

    @property
    def pairs(self) -> Iterable[Pair]:
        """All pairs, in the same order each time; not asked for where they are cached."""


class Source(Protocol):
    """A place that pairs come from."""

    def revision(self, revisions: Revisions) -> str:
        """What decides its pairs; asked for before they are read."""

    def read(self) -> Iterator[Pair | BadRow]:
        """Every row, in order."""


def source_named(name: str) -> Source:
    """The source that a recipe calls `name`; nothing is read yet.

    Raises:
        ConfigError: If there is none of that name.
        DataError: If it is a file or folder that cannot hold pairs.
    """
    _refuse_no_name(name)
    kind, _, argument = name.partition(":")
    if kind == "hub":
        return HubSource(argument)
    if kind == "crops":
        return CropSource(texts_named(argument))
    if kind in plugin_names(PLUGINS):
        return PluginSource(kind, argument)
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path)
    if path.is_file():
        return FileSource((path,))
    if name.endswith(SUFFIXES) or "/" in name:
        raise DataError(f"There is no file or folder {name}; check data.sources.")
    names = (*plugin_names(PLUGINS), "hub", "crops")
    raise ConfigError(
        f"There is no source {name!r}: it is no file, no folder, and not one of "
        f"{', '.join(names)}.{did_you_mean(kind, names)} Mend data.sources."
    )


def texts_named(name: str) -> TextSource:
    """The texts of what a recipe calls `name`; nothing is read yet.

    Of a BEIR folder they are its corpus, of files of rows their texts or documents, and of every
    other source the documents of its pairs.

    Raises:
        ConfigError, DataError: As `source_named`.
    """
    _refuse_no_name(name)
    path = Path(name).expanduser()
    named = name.partition(":")[0] in ("hub", "crops", *plugin_names(PLUGINS))
    if not named and path.is_dir() and is_beir(path):
        return RowTexts((path / "corpus.jsonl",), domain=path.resolve().name)
    if not named and path.is_file() and name.endswith((".jsonl", ".jsonl.gz")):
        return RowTexts((path,))
    source = source_named(name)
    return FileTexts(source.files) if isinstance(source, FileSource) else DocumentsOf(source)


def _refuse_no_name(name: str) -> None:
    """As a path, no name at all would be the folder that the command is run in."""
    if not name.strip():
        raise ConfigError(
            'data.sources has a name that is empty, as in "" or crops: alone; name a file, a '
            "folder, hub:ORG/NAME, or docs."
        )


def _folder(path: Path) -> Source:
    if (path / ABOUT).is_file():
        return WrittenSource(path)
    return BeirSource(path) if is_beir(path) else FileSource(files_in(path))


class FileSource:
    """Files of rows, one after the other."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        """Take files, which may be of different formats."""
        self.files = files

    def revision(self, revisions: Revisions) -> str:
        """Checksum of every file, and its name as far as that is a domain."""
        return json.dumps([[domain_of_file(file), revisions.of_file(file)] for file in self.files])

    def read(self) -> Iterator[Pair | BadRow]:
        """Every row of every file."""
        for file in self.files:
            yield from read_rows(file, pair_or_bad)


class WrittenSource:
    """A folder that `write_pairs` wrote."""

    def __init__(self, folder: Path) -> None:
        """Open it."""
        self._pairs = Pairs.open(folder)

    def revision(self, revisions: Revisions) -> str:
        """The digest of its pairs."""
        return f"pairs {self._pairs.digest}"

    def read(self) -> Iterator[Pair | BadRow]:
        """Its pairs."""
        return iter(self._pairs)


class PluginSource:
    """Pairs that an installed package offers."""

    def __init__(self, kind: str, argument: str) -> None:
        """Ask it."""
        self._kind = kind
        self._offered: SourceOfPairs = plugin(PLUGINS, kind)(argument)

    def revision(self, revisions: Revisions) -> str:
        """The plug-in's own."""
        return f"{self._kind} {self._offered.revision}"

    def read(self) -> Iterator[Pair | BadRow]:
        """Its pairs."""
        yield from self._offered.pairs
