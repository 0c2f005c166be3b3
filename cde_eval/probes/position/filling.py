"""What is taken out of a text, and what a model that fills it in must do.

Span ──▶ SpanModel.fill ──▶ the tokens that the model puts there
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int64]

BATCH = 8
"""Spans that a model fills in at once."""


class Span(NamedTuple):
    """Tokens that are taken out of a text."""

    tokens: Tokens
    """The whole text, complete."""

    start: int
    length: int

    @property
    def truth(self) -> Tokens:
        """What is missing."""
        return self.tokens[self.start : self.start + self.length]


class SpanModel(Protocol):
    """A model that fills in spans."""

    name: str
    revision: str
    window: int
    """Most tokens of a text, without what the model puts around it."""

    def tokens(self, text: str) -> Tokens:
        """Token ids of a text, nothing added and nothing cut."""
        ...

    def fill(self, spans: Sequence[Span]) -> list[Tokens]:
        """For each span, the tokens that the model puts there; each by itself in its text."""
        ...
