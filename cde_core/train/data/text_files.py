"""Many texts in one file, appended in order and read back by number.

    TextWriter.add ──▶ NAME.utf8, NAME.offsets ──▶ Texts.read(numbers)

Texts stand one after the other without separators; the offsets (int64, little-endian) say where
each begins, and where the last one ends. Both files are memory-mapped, so a text costs its own
bytes and not those of the others, and a file may be larger than memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[int] | NDArray[np.int64]

INT64 = struct.Struct("<q")
BUFFER = 1 << 20  # bytes that a file holds back before it writes


class AnyTexts(Protocol):
    """Texts that are read by number."""

    def read(self, numbers: Numbers) -> list[str]:
        """Some texts, in the order asked for."""


class Texts:
    """Texts of one kind, on disk."""

    def __init__(self, folder: Path, name: str) -> None:
        """Map the files that a `TextWriter` of this name wrote."""
        self._offsets = mapped(folder / f"{name}.offsets", "<i8")
        # Slices of a memoryview cost a tenth of those of an array.
        self._bytes = memoryview(cast(Any, mapped(folder / f"{name}.utf8", "u1")))

    def read(self, numbers: Numbers) -> list[str]:
        """Some texts, in the order asked for.

        Raises:
            IndexError: If a number is below 0, or there is no such text.
        """
        chosen = np.asarray(numbers, dtype=np.int64)
        if len(chosen) and chosen.min() < 0:
            raise IndexError(f"texts are numbered from 0, got {chosen.min()}")
        ends = self._offsets[chosen + 1].tolist()
        starts = self._offsets[chosen].tolist()
        content = self._bytes
        return [str(content[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]


class JoinedTexts:
    """Texts of one kind and, numbered after those, of another."""

    def __init__(self, first: AnyTexts, count: int, second: AnyTexts) -> None:
        """Number `count` is the first text of `second`."""
        self._first, self._count, self._second = first, count, second

    def read(self, numbers: Numbers) -> list[str]:
        """Some texts, in the order asked for; otherwise like `Texts.read`."""
        asked = np.asarray(numbers, dtype=np.int64)
        of_first = asked < self._count
        first = iter(self._first.read(asked[of_first]))
        second = iter(self._second.read(asked[~of_first] - self._count))
        return [next(first) if here else next(second) for here in of_first.tolist()]


class PickedTexts:
    """Some of the texts on disk, under numbers of their own."""

    def __init__(self, texts: AnyTexts, chosen: NDArray[np.int64]) -> None:
        """Call text `chosen[i]` number i."""
        self._texts, self._chosen = texts, chosen

    def read(self, numbers: Numbers) -> list[str]:
        """Some texts, in the order asked for; otherwise like `Texts.read`."""
        return self._texts.read(self._chosen[np.asarray(numbers, dtype=np.int64)])


class TextWriter:
    """Appends texts of one kind; a text's number is how many were there before."""

    def __init__(self, folder: Path, name: str, files: ExitStack) -> None:
        """Begin two files, which `files` closes."""
        self._texts = files.enter_context(new_file(folder / f"{name}.utf8"))
        self._offsets = files.enter_context(new_file(folder / f"{name}.offsets"))
        self._offsets.write(INT64.pack(0))
        self._end = self.count = 0

    def add(self, text: bytes) -> None:
        """Append one text, which is UTF-8."""
        self._texts.write(text)
        self._end += len(text)
        self._offsets.write(INT64.pack(self._end))
        self.count += 1


def new_file(path: Path) -> BinaryIO:
    """A file to be appended to in small pieces; it must not be there yet."""
    return path.open("xb", buffering=BUFFER)


def mapped(path: Path, dtype: str) -> NDArray[Any]:
    """Content of a file as an array that stays on disk; an empty file cannot be mapped."""
    if not path.stat().st_size:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r").view(np.ndarray)
