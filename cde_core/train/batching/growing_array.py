"""A file of vectors that is written from its start to its end, however many runs that takes.

    GrowingArray ──append──▶ vectors.npy.unfinished + vectors.npy.json ──last rows──▶ vectors.npy

Rows are appended, pushed to the disk, and only then recorded in a small JSON file beside them. A
killed run therefore loses at most the rows that it had not recorded: the next one cuts the file to
what is recorded and goes on. The finished file is an ordinary .npy, to be memory-mapped; it has its
name only once it is whole.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def opened(file: Path, *, rows: int, dtype: DTypeLike = np.float32) -> NDArray[Any] | None:
    """The vectors (rows, d) of a finished file, memory-mapped; None if it does not hold them."""
    try:
        array = np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None
    if array.dtype != dtype or array.ndim != 2 or len(array) != rows:
        return None
    whole = file.stat().st_size == array.offset + array.nbytes
    return array if whole else None


class GrowingArray:
    """The unfinished form of an array; use it in a `with` statement."""

    def __init__(self, file: Path, *, rows: int, dtype: DTypeLike = np.float32) -> None:
        """Begin, or continue, `file`, which will have this many rows of this kind of numbers."""
        self._file, self._rows = file, rows
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._unfinished = file.with_name(f"{file.name}.unfinished")
        self._record = file.with_name(f"{file.name}.json")
        self.done, self._width = self._recorded()
        """Rows that need not be given again."""

    def __enter__(self) -> GrowingArray:
        self._out = self._unfinished.open("r+b" if self.done else "wb")
        if self.done:
            self._out.truncate(self._size(self.done))
            self._out.seek(0, os.SEEK_END)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._out.close()
        if kind is None and self.done == self._rows:
            self._unfinished.replace(self._file)
            self._record.unlink(missing_ok=True)

    def append(self, vectors: NDArray[Any]) -> None:
        """Add rows (n, d) and record them.

        Raises:
            ValueError: If they are not as wide as those before, or too many.
        """
        if not self.done:
            self._width = vectors.shape[1]
            self._out.write(self._header())
        if vectors.shape[1] != self._width or self.done + len(vectors) > self._rows:
            raise ValueError(f"{vectors.shape} after {self.done} of ({self._rows}, {self._width})")
        self._out.write(np.ascontiguousarray(vectors, dtype=self._dtype).data)
        self._out.flush()
        os.fsync(self._out.fileno())
        self.done += len(vectors)
        self._write_record()

    def _recorded(self) -> tuple[int, int]:
        """Rows and width of an unfinished file that is as its record says; else (0, 0)."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            done, self._width = int(record["done"]), int(record["width"])
            enough = self._unfinished.stat().st_size >= self._size(done)
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        return (done, self._width) if enough and record["rows"] == self._rows else (0, 0)

    def _write_record(self) -> None:
        record = {"rows": self._rows, "done": self.done, "width": self._width}
        temporary = self._record.with_name(f"{self._record.name}.new")
        temporary.write_text(json.dumps(record), encoding="utf-8")
        temporary.replace(self._record)

    def _header(self) -> bytes:
        header = io.BytesIO()
        shape, kind = (self._rows, self._width), self._dtype.str
        about = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, about)
        return header.getvalue()

    def _size(self, rows: int) -> int:
        return len(self._header()) + rows * self._width * self._dtype.itemsize
