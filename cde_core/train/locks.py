"""One process at a time, where several could begin the same work.

    with one_process_at_a_time(file): …

A lock is the system's own and ends with the process that holds it, however that ends, so nothing
is ever left locked; the file itself stays and means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_process_at_a_time(file: Path) -> Iterator[None]:
    """Wait until no other process is in here with the same file."""
    import fcntl

    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
