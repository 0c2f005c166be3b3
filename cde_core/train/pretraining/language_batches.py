"""What a step of pre-training reads: windows in an order of chance, each with spans cut out.

    step ──▶ windows of the batch ──▶ corrupt ──▶ Example: what is read, what is to be said

All of it follows from the seed and the step's number: a run that goes on after an accident reads
what it would have read. In every epoch each window comes once, with other spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ConfigError
from cde_core.recipe import Recipe
from cde_core.tokens import Tokens
from cde_core.train.pretraining.span_corruption import corrupt
from cde_core.train.pretraining.token_windows import Frame, TokenWindows


class Example(NamedTuple):
    """One text with its gaps."""

    read: Tokens
    """What the encoder reads."""

    said: Tokens
    """What the decoder is to say; the closing token is its last."""


@dataclass(frozen=True, slots=True)
class LanguageBatches:
    """The batches of a run, by their numbers."""

    windows: TokenWindows
    frame: Frame
    sentinels: Tokens
    recipe: Recipe

    @property
    def steps(self) -> int:
        """Steps of the whole run.

        Raises:
            ConfigError: If the texts do not fill a batch.
        """
        size, there = self.recipe.batches.size, len(self.windows)
        if self.recipe.steps:
            return self.recipe.steps
        if there < size:
            raise ConfigError(
                f"The texts fill {there} windows of {self.windows.size} tokens, fewer than a batch "
                f"of {size}; set batches.size to {there} or less, or say steps."
            )
        return self.recipe.epochs * (there // size)

    def examples(self, step: int, numbers: Sequence[int] | NDArray[np.int64]) -> list[Example]:
        """Some of the examples of a step, by their numbers within its batch."""
        return [self._example(step, int(number)) for number in numbers]

    def _example(self, step: int, number: int) -> Example:
        epoch, place = divmod(step * self.recipe.batches.size + number, len(self.windows))
        window = self.windows[int(self._order(epoch)[place])]
        spans = self.recipe.spans
        found = corrupt(
            window,
            self.sentinels,
            np.random.default_rng([self.recipe.seed, step, number]),
            share=spans.share,
            mean_length=spans.mean_length,
        )
        read = [*self.frame.before, *found.input, *self.frame.after]
        return Example(
            np.asarray(read, dtype=np.int32), np.append(found.target, np.int32(self.frame.end))
        )

    def _order(self, epoch: int) -> NDArray[np.int64]:
        return _permutation(self.recipe.seed, epoch, len(self.windows))


def _permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    key = (seed, epoch, count)
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = np.random.default_rng([seed, epoch, 1]).permutation(count)
    return _LAST[key]


_LAST: dict[tuple[int, int, int], NDArray[np.int64]] = {}
"""The order of the last epoch that was asked for, which is the next step's too."""
