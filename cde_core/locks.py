"""One process at a time, where several could begin the same work.

    with one_process_at_a_time(file): …        who comes second waits
    with the_only_process(file, "…"): …        who comes second is told so

A lock is the system's own and ends with the process that holds it, however that ends, so nothing
is ever left locked; the file itself stays and means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cde_core.errors import ConfigError


@contextmanager
def one_process_at_a_time(file: Path) -> Iterator[None]:
    """Wait until no other process is in here with the same file, which is one of the cache.

    Raises:
        ConfigError: If the file cannot be written.
    """
    import fcntl

    try:
        lock = file.open("w")
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror}); set CDE_EVAL_CACHE to a folder that can."
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def the_only_process(file: Path, refusal: str) -> Iterator[None]:
    """Refuse to go on where another process is in here with the same file.

    Raises:
        ConfigError: With `refusal`.
    """
    import fcntl

    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(refusal) from None
        yield
