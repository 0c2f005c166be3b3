"""Delete some of what the cache folder holds.

    entries ──▶ prune ──▶ what was freed, and what was left alone and why

Files go one by one, so that a killed deletion leaves what is whole (each shard of a space is valid
by itself) or is taken for nothing. The file that says what an entry is goes last: until then the
same command finds the rest by the same filters, and pairs without it would look like somebody
else's. Who uses a space, or is making pairs, what is found of them, tokens or a corpus, has it
locked, and it is left alone. All else is read whole or mapped, and on Linux what a process has
mapped stays readable to it when its name is gone. Lock files of training and of corpora stay, since
a process may be waiting for one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cde_eval.cached import Entry

IN_USE = "in use"


def prune(
    entries: Iterable[Entry], *, excess: float | None = None, dry_run: bool = False
) -> Iterator[tuple[Entry, str]]:
    """Delete entries, the least recently used first; nothing happens before they are asked for.

    Args:
        entries: What may be deleted.
        excess: Bytes; no more entries are deleted than it takes to free them. None: all are.
        dry_run: Delete nothing, and say what would be.

    Yields:
        Each entry that was to go, with "" where it is deleted, or else why not.
    """
    for entry in sorted(entries, key=lambda entry: (entry.used, entry.files)):
        if excess is not None and excess <= 0:
            return
        why = _delete(entry, dry_run=dry_run)
        if excess is not None and not why:
            excess -= entry.size
        yield entry, why


def _delete(entry: Entry, *, dry_run: bool) -> str:
    """Delete an entry; says why where it cannot be."""
    try:
        with _alone(entry.lock, make=entry.kind == "vectors" and not dry_run):
            if entry.again() != entry:
                return "used or changed just now"
            if not dry_run:
                _remove(entry)
    except BlockingIOError:
        return IN_USE
    except OSError as error:
        return f"cannot be deleted: {error.strerror or error}"
    return ""


def _remove(entry: Entry) -> None:
    for file in entry.files:
        file.unlink(missing_ok=True)
    if entry.kind == "vectors" and entry.lock:
        entry.lock.unlink(missing_ok=True)  # who waits for it looks whether it is still there
    for folder in entry.folders:
        with suppress(OSError):  # something else is in there
            folder.rmdir()


@contextmanager
def _alone(lock: Path | None, *, make: bool) -> Iterator[None]:
    """Keep others out; BlockingIOError if one is in."""
    try:
        import fcntl
    except ImportError:  # Windows
        lock = None
    if lock is None or not (make or lock.exists()):
        yield
        return
    file = os.open(lock, os.O_RDWR | (os.O_CREAT if make else 0), 0o666)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks: nobody has one
            pass
        yield
    finally:
        os.close(file)
