"""Files of rows: JSON lines, plain or gzipped, and Parquet.

    x.jsonl   x.jsonl.gz   x.parquet ──▶ read_rows ──▶ Pair (or Text) or BadRow, one at a time

A file is never in memory as a whole. A bad row is told by its line, and the next one is read; a
damaged file, such as a download that stopped half-way, is an error whatever rows it has.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from cde_core.errors import DataError
from cde_core.train.data.row_layouts import COLUMNS, BadRow, is_layout

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?$")
"""What the hub appends to the name of a split's files."""

ROWS_AT_ONCE = 1_024  # of a Parquet file

Made = TypeVar("Made")
Make = Callable[[object, str, object, str, int], Made]
"""What a row becomes, by its domain and its place, such as `pair_or_bad`."""


def files_in(folder: Path) -> tuple[Path, ...]:
    """All files of rows in a folder and the folders in it, sorted.

    Raises:
        DataError: If there is none.
    """
    files = tuple(sorted(p for p in folder.rglob("*") if p.name.endswith(SUFFIXES) and p.is_file()))
    if not files:
        raise DataError(f"{folder} holds no {', '.join(SUFFIXES)} file; name another folder.")
    return files


def domain_of_file(file: Path) -> str:
    """A file's name, without what says its format and which part it is.

    Raises:
        DataError: If it is of no format that is known.
    """
    for suffix in SUFFIXES:
        if file.name.endswith(suffix):
            return SHARD.sub("", file.name.removesuffix(suffix))
    raise DataError(f"{file} is none of {', '.join(SUFFIXES)}; convert it to one.")


def read_rows(file: Path, make: Make[Made]) -> Iterator[Made | BadRow]:
    """What `make` makes of every row of a file, in order; blank lines are none.

    Raises:
        DataError: If the file is of no format that is known, or damaged.
    """
    return _read_parquet(file, make) if file.suffix == ".parquet" else _read_json(file, make)


def _read_json(file: Path, make: Make[Made]) -> Iterator[Made | BadRow]:
    domain = domain_of_file(file)
    for number, line in lines(file):
        if line.isspace():
            continue
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            row = json.loads(text.rstrip("\r\n"))
        except (ValueError, RecursionError) as error:
            yield BadRow(f"{file}, line {number}", _why_no_json(error))
        else:
            yield make(row, domain, file, "line", number)


def _why_no_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):  # its own text says "line 1" of every line
        return f"this is not JSON ({error.msg} at character {error.pos + 1})"
    if isinstance(error, UnicodeDecodeError):
        return f"this is not UTF-8 ({error.reason} at byte {error.start + 1})"
    return f"this is not JSON ({error})"


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Lines as bytes, so that a broken one is known by its number."""
    number = 0
    try:
        with _opened(file) as content:
            for number, line in enumerate(content, start=1):
                yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{file} cannot be read beyond line {number} ({error}); copy or download it again."
        ) from error


def _opened(file: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _read_parquet(file: Path, make: Make[Made]) -> Iterator[Made | BadRow]:
    import pyarrow
    from pyarrow import parquet

    domain, number = domain_of_file(file), 0
    try:
        with parquet.ParquetFile(file) as content:
            for batch in content.iter_batches(ROWS_AT_ONCE, columns=_wanted(content)):
                for row in batch.to_pylist():
                    number += 1
                    yield make(row, domain, file, "row", number)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{file} cannot be read beyond row {number} ({error}); copy or download it again."
        ) from error


def _wanted(content: Any) -> list[str] | None:
    """Columns that make pairs; all of them where none do, so that the message can name them."""
    names = content.schema_arrow.names
    return [name for name in names if name in COLUMNS] if is_layout(names) else None
