"""Bars for work that takes longer than a moment, on terminals only.

with one_bar(10_000): …                a bar for all that follows
    with progress_bar(2_048) as step:  says how far its part is, on that bar if there is one
        step(64)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

PATIENCE = 2
"""Seconds that work takes before it gets a bar."""

_shared: ContextVar[tuple[str, tqdm[Any]] | None] = ContextVar("shared bar", default=None)


@contextmanager
def progress_bar(total: int, what: str = "texts") -> Iterator[Callable[[int], object]]:
    """A function that is told how many more are done."""
    shared = _shared.get()
    if shared is not None and shared[0] == what:
        yield shared[1].update
        return
    with _bar(total, what) as bar:
        yield bar.update


@contextmanager
def one_bar(total: int, what: str = "texts") -> Iterator[Callable[[int], object]]:
    """A bar that parts of the work with bars of the same name move, too.

    Gives a function that is told how many are done by now; what the parts have said of that
    already does not count twice.
    """
    with _bar(total, what) as bar:
        token = _shared.set((what, bar))
        try:
            yield lambda done: bar.update(max(0, done - bar.n))
        finally:
            _shared.reset(token)


def _bar(total: int, what: str) -> tqdm[Any]:
    return tqdm(total=total, desc=what, unit="", leave=False, delay=PATIENCE, disable=None)
