"""Vectors of texts on disk: embed a corpus once, whatever happens meanwhile.

    texts ──▶ keys ──▶ which are missing ──▶ embed, a shard at a time ──▶ SPACE/CHECKSUM.npy
                └──────────────────────────── where each one lies ──▶ StoredVectors

A *space* is everything that decides a vector besides its text: the model and its revision, its
settings, the prompt, the context. Each has a folder, and a text is known there by its hash, so any
command that meets the same text in the same space finds its vector, be it in another corpus.

A shard is written whole or not at all as soon as it is embedded: a killed run continues at the next
one. A shard is named by the checksum of its bytes; one that is not what its name says is remade.
Two processes may fill the same space at once: at worst both embed a text, and either vector serves.
Whoever uses a space holds a shared lock on it, so that `cde-eval cache prune` leaves it alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cde_core.errors import CdeWarning
from cde_eval.progress import one_bar
from cde_eval.results import write_atomically
from cde_eval.vectors import Rows, Vectors

FORMAT = "cde-eval vectors 1"
LOCK = "lock"
"""File in the folder of a space; who uses the space has it locked."""
TEXTS_PER_SHARD = 2048
"""Texts embedded between two writes, which is what a killed run loses at most."""

Keys = npt.NDArray[np.uint64]
"""Shape (n, 2): the first 128 bits of each text's sha256."""

EmbedBlocks = Callable[[Iterator[list[str]]], Iterable[tuple[int, Vectors]]]
"""Embeds blocks of texts; gives the number of each block with its vectors, in any order."""


class VectorStore:
    """The vectors of one space, in one folder."""

    def __init__(self, folder: Path, about: Mapping[str, str]) -> None:
        """Use, and make if need be, the folder of a space.

        Args:
            folder: Where the folders of all spaces are.
            about: What the space is; any difference makes it another one.
        """
        about = {"format": FORMAT, **about}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        self.folder = folder / digest[:32]
        self._about = about
        self._index = _Index()

    def vectors_of(self, texts: Sequence[str], embed: EmbedBlocks) -> StoredVectors:
        """Vectors of `texts`, embedding those that are not here yet.

        Args:
            texts: Any sequence; it is gone through once for keys and once for what is missing.
            embed: Gives the vectors of blocks of at most `TEXTS_PER_SHARD` distinct texts.

        Raises:
            OSError: If the folder cannot be written.
        """
        held = _held(self.folder)
        self._announce()
        if self._index.lacks_any(self.folder):  # deleted while nobody here held the space
            self._index = _Index()
        self._index.refresh(self.folder)
        keys = keys_of(texts)
        missing = _first_rows(keys, self._index.holds(keys))
        starts = range(0, len(missing), TEXTS_PER_SHARD)
        blocks = [missing[start : start + TEXTS_PER_SHARD] for start in starts]
        done = 0
        with one_bar(len(missing)) as reached:
            for number, vectors in embed(_taken(texts, rows) for rows in blocks):
                path = _write(self.folder, keys[blocks[number]], vectors)
                self._index.add(path, keys[blocks[number]])
                done += len(vectors)
                reached(done)
        return StoredVectors(self._index, keys, held)

    def _announce(self) -> None:
        """Say in the folder what it is, and by that file's time when it was last used."""
        path = self.folder / "space.json"
        if path.is_file():
            with contextlib.suppress(OSError):  # somebody else's folder may be read all the same
                path.touch()
        else:
            write_atomically(path, json.dumps(self._about, indent=1, sort_keys=True) + "\n")


class StoredVectors:
    """Vectors of a list of texts, on disk; rows are read as they are asked for."""

    def __init__(self, index: _Index, keys: Keys, held: _Lock | None) -> None:
        self._shards, self._places = index.places(keys)
        self._held = held

    def __len__(self) -> int:
        return len(self._places)

    @property
    def shape(self) -> tuple[int, int]:
        """(texts, dim)."""
        return len(self), self._shards[0].width if self._shards else 0

    def __getitem__(self, rows: slice | Rows) -> Vectors:
        """Rows by a slice or by their numbers, shape (n, dim), in memory."""
        places = self._places[rows]
        vectors = np.empty((len(places), self.shape[1]), dtype=np.float32)
        order = np.argsort(places[:, 0], kind="stable")
        borders = np.flatnonzero(np.diff(places[order, 0])) + 1
        for group in np.split(order, borders):
            if len(group):
                shard = self._shards[int(places[group[0], 0])]
                vectors[group] = shard.records()["vector"][places[group, 1]]
        return vectors


class _Shard:
    """A file of records (key, vector)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> npt.NDArray[Any]:
        return _mapped(self.path)

    @functools.cached_property
    def width(self) -> int:
        return int(self.records().dtype["vector"].shape[0])


@functools.lru_cache(maxsize=64)
def _mapped(path: Path) -> npt.NDArray[Any]:
    """A shard's records, memory-mapped; few at a time, since address space may be limited."""
    found: npt.NDArray[Any] = np.load(path, mmap_mode="r")
    return found


class _Lock:
    """A locked file; the lock ends when nobody has this object any more, or with the process."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
        weakref.finalize(self, os.close, self.file)


@functools.lru_cache(maxsize=64)
def _held(folder: Path) -> _Lock | None:
    """Hold a space, waiting for the end of its deletion; None where that cannot be done.

    Besides spaces whose vectors are being read, the 64 used last stay held: not all that a process
    ever used, since each costs an open file, and contextual models have a space per context.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    path = folder / LOCK
    for _ in range(10):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _Lock(path)
            fcntl.flock(lock.file, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(lock.file), path.stat()):
                return lock
        except FileNotFoundError:  # the folder was deleted between two of these lines
            continue
        except OSError:  # somebody else's folder may be read all the same
            return None
    return None


class _Index:
    """Where the vector of each key lies: sorted keys, each with its shard and its row there."""

    def __init__(self) -> None:
        self.shards: list[_Shard] = []
        self._known: set[str] = set()
        self._keys: Keys = np.empty((0, 2), dtype=np.uint64)
        self._places: Rows = np.empty((0, 2), dtype=np.int64)
        self._added: list[tuple[Keys, Rows]] = []

    def lacks_any(self, folder: Path) -> bool:
        """Whether shards have gone since they were taken in."""
        return not self._known <= {path.name for path in folder.glob("*.npy")}

    def refresh(self, folder: Path) -> None:
        """Take in the shards that have come since, of this process and of others."""
        for path in sorted(folder.glob("*.npy")):
            if path.name not in self._known and (keys := _checked_keys(path)) is not None:
                self.add(path, keys)

    def add(self, path: Path, keys: Keys) -> None:
        """Take in a shard whose rows have these keys."""
        if path.name in self._known:
            return
        rows = np.arange(len(keys))
        self._added.append((keys, np.stack([np.full_like(rows, len(self.shards)), rows], axis=1)))
        self.shards.append(_Shard(path))
        self._known.add(path.name)

    def holds(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Shape (n,): whether the vector of each key is here."""
        return self._find(keys) >= 0

    def places(self, keys: Keys) -> tuple[list[_Shard], Rows]:
        """The shards, and shape (n, 2): shard and row of each key, which must be here."""
        found = self._find(keys)
        if (found < 0).any():
            raise RuntimeError("a vector that was just written is not there")
        return self.shards, self._places[found]

    def _find(self, keys: Keys) -> Rows:
        """Position of each key; -1 where it is not here. Half of a key finds, the rest checks."""
        self._merge()
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        at = np.searchsorted(self._keys[:, 0], keys[:, 0])
        at[at == len(self._keys)] = 0
        return np.where((self._keys[at] == keys).all(axis=1), at, -1)

    def _merge(self) -> None:
        if self._added:
            keys = np.concatenate([self._keys, *(keys for keys, _ in self._added)])
            places = np.concatenate([self._places, *(places for _, places in self._added)])
            order = np.argsort(keys[:, 0], kind="stable")
            self._keys, self._places, self._added = keys[order], places[order], []


def keys_of(texts: Iterable[str]) -> Keys:
    """What each text is known by, shape (n, 2)."""
    digests = (hashlib.sha256(t.encode("utf-8", "surrogatepass")).digest()[:16] for t in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _first_rows(keys: Keys, held: npt.NDArray[np.bool_]) -> Rows:
    """Rows to embed, in their order: those not held, of equal ones the first."""
    wanted = np.flatnonzero(~held)
    _, first = np.unique(keys[wanted].view("V16"), return_index=True)
    return wanted[np.sort(first)]


def _taken(texts: Sequence[str], rows: Rows) -> list[str]:
    """Some of the texts, in one step where they stand together."""
    start, stop = int(rows[0]), int(rows[-1]) + 1
    if stop - start == len(rows):
        return list(texts[start:stop])
    return [texts[int(row)] for row in rows]


def _write(folder: Path, keys: Keys, vectors: Vectors) -> Path:
    """A new shard, named by its checksum."""
    shape = (vectors.shape[1],)
    records = np.empty(len(keys), dtype=[("key", "<u8", (2,)), ("vector", "<f4", shape)])
    records["key"], records["vector"] = keys, vectors
    part = folder / f".{uuid.uuid4().hex}.part"
    try:
        with part.open("wb") as file:
            np.save(file, records)
            file.flush()
            os.fsync(file.fileno())
        path = folder / f"{_checksum(part)}.npy"
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _checked_keys(path: Path) -> Keys | None:
    """Keys of a shard that is what its name says; None, and no such file any more, if not."""
    try:
        if _checksum(path) == path.stem:
            return np.array(_mapped(path)["key"])
        path.unlink()
    except FileNotFoundError:  # another process has found it damaged just now
        return None
    warnings.warn(
        f"{path} is damaged (its checksum is not its name) and is deleted; its texts are embedded "
        "again.",
        CdeWarning,
        stacklevel=2,
    )
    return None
