"""JSONL files of BEIR folders as Arrow tables, without a Python object per row.

    JSONL ──▶ blocks of rows ──▶ Arrow table ──▶ in memory, or a file of the cache that is mapped

A corpus may be of millions of documents and gigabytes of text, so only a block of it is ever
Python objects, and a large one is read from JSON once: after that, from the cache.
"""

from __future__ import annotations

import json
import warnings
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import Dataset

from cde_core.errors import CdeWarning, DataError
from cde_core.locks import one_process_at_a_time
from cde_eval.results import write_atomically

KEPT_FROM = 64 << 20
"""Bytes of a corpus file from which on the corpus is kept in the cache, and not in memory."""
BLOCK_ROWS = 10_000
BLOCK_BYTES = 64 << 20
"""A block is full with so many rows or bytes; Arrow's strings take 2 GiB of them."""

CORPUS = pa.schema([(name, pa.string()) for name in ("id", "text", "title")])
QUERIES = pa.schema([(name, pa.string()) for name in ("id", "text")])
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""Last bytes of an Arrow stream; a reader takes one that was cut between blocks for a whole one."""


def read_corpus(path: Path, revision: str) -> Dataset:
    """A corpus: in memory where it is small, else mapped from a file of the cache.

    Args:
        path: corpus.jsonl of a BEIR folder.
        revision: Names its exact content.

    Raises:
        DataError: If a line is not a JSON object with an id and a text, or an id is there twice.
    """
    if path.stat().st_size > KEPT_FROM:
        from cde_core.model.context_cache import cache_folder  # imports torch

        kept = cache_folder() / "corpora" / f"{revision}-corpus.arrow"
        try:
            _keep(path, kept)
            return Dataset.from_file(str(kept))
        except OSError as error:
            warnings.warn(
                f"The corpus {path} could not be kept in {kept.parent} ({error}), so it is held in "
                "memory; set CDE_EVAL_CACHE to a folder that can be written and has room.",
                CdeWarning,
                stacklevel=2,
            )
    # A fingerprint is given because `datasets` would hash the whole table to find one.
    return Dataset(read_table(path, CORPUS), fingerprint=f"{revision}-corpus")


def _keep(path: Path, kept: Path) -> None:
    """Write a corpus into the cache, unless it is there."""

    def write(part: Path) -> None:
        try:
            with pa.OSFile(str(part), "wb") as file, pa.ipc.new_stream(file, CORPUS) as stream:
                for batch in _batches(path, CORPUS):
                    stream.write_batch(batch)
        except BaseException:
            part.unlink(missing_ok=True)  # gigabytes that nobody would come back for
            raise

    kept.parent.mkdir(parents=True, exist_ok=True)
    with one_process_at_a_time(kept.with_suffix(".lock")):
        if not _is_complete(kept):
            write_atomically(kept, write)


def _is_complete(kept: Path) -> bool:
    try:
        with pa.memory_map(str(kept)) as file:
            if pa.ipc.open_stream(file).schema != CORPUS:
                return False
            file.seek(file.size() - len(_STREAM_END))
            return bool(file.read() == _STREAM_END)
    except (OSError, pa.ArrowInvalid):
        return False


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a JSONL file, in memory.

    Raises:
        DataError: If a line is not a JSON object with what is needed, or an id is there twice.
    """
    return pa.Table.from_batches(_batches(path, schema), schema)


def _batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a JSONL file, a block at a time; that ids differ is known at the end."""
    hashes = array("q")
    block: list[list[bytes]] = [[] for _ in schema]
    size = 0
    for _, row in _rows(path, with_title="title" in schema.names):
        hashes.append(hash(row[0]))
        for column, value in zip(block, row, strict=True):
            column.append(value)
        size += sum(map(len, row))
        if len(block[0]) == BLOCK_ROWS or size >= BLOCK_BYTES:
            yield _batch(block, schema)
            block, size = [[] for _ in schema], 0
    if block[0]:
        yield _batch(block, schema)
    _refuse_repeated(path, hashes)


def _batch(block: list[list[bytes]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(column, pa.binary()).cast(pa.string()) for column in block]
    return pa.record_batch(columns, schema=schema)


def _rows(path: Path, *, with_title: bool) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Line number and (id, text[, title]) of every line that is not blank, in UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode())
                if record["_id"] is None or record["text"] is None:
                    raise ValueError("one of them is null")
                row = str(record["_id"]).encode(), str(record["text"]).encode()
                title = str(record.get("title") or "").encode() if with_title else b""
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{path}, line {number}: not a JSON object with `_id` and `text` ({error})."
                ) from error
            yield number, ((*row, title) if with_title else row)


def _refuse_repeated(path: Path, hashes: array[int]) -> None:
    """Refuse an id that comes twice.

    8 bytes are held for every id; the file is read again only where two of those are the same.
    """
    ordered = np.sort(np.frombuffer(hashes, dtype=np.int64))
    suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if not suspects:
        return
    seen: set[bytes] = set()
    for number, (identity, *_) in _rows(path, with_title=False):
        if hash(identity) in suspects:
            if identity in seen:
                raise DataError(
                    f"{path}, line {number}: the id {identity.decode()!r} is there twice."
                )
            seen.add(identity)
