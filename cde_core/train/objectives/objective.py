"""What an objective is: a function of a batch's vectors, and of what is known of its pairs.

    queries (n, h), documents (C, h), Part ──▶ Objective ──▶ Found: loss, and what to tell

It never sees the model. So the gradient cache works with every objective (the loss tells each
vector its gradient, and the model is run again to pass it on), and so do several processes, each of
which hands it the queries of its own share. What it gives for some of the queries is their part of
the batch's loss: parts add up.

Most losses are means over queries, and their parts need nothing of one another. One that compares
pairs with pairs (CoSENT) needs all of them: it is `joint`, and gets the whole batch at once, on
every process the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cde_core.train.objectives.columns import Columns


@dataclass(frozen=True, slots=True)
class Judged:
    """What people, or a teacher, say of a batch's pairs."""

    scores: Tensor
    """How alike query and answer are, on any scale (B,), float32; NaN where nobody says."""

    labels: Tensor
    """Class of query and answer (B,), int64; -1 where nobody says."""

    teacher: Tensor
    """A teacher's logit of each column with the query that brought it (C,); NaN likewise."""

    @classmethod
    def nothing(cls, queries: int, columns: int) -> Judged:
        """Nobody says anything."""
        return cls(
            scores=torch.full((queries,), torch.nan),
            labels=torch.full((queries,), -1),
            teacher=torch.full((columns,), torch.nan),
        )


@dataclass(frozen=True)
class Part:
    """Some queries of a batch (n), or all of them, and all that is known but their vectors."""

    columns: Columns
    """Whose the documents are: answers (n,), owners (C,); -1 owns what others brought."""

    judged: Judged
    """Of these queries (n,), and of all columns (C,)."""

    batch: int
    """Queries in the whole batch (B), which means are taken over."""

    masked: Callable[[], Tensor | None]
    """Gives `ignored`; asked for at most once, since it may take a surrogate's time."""

    @cached_property
    def ignored(self) -> Tensor | None:
        """True where a column does not count for a query (n, C); None: all do."""
        return self.masked()


class Found(NamedTuple):
    """What an objective makes of some queries."""

    loss: Tensor
    """Their part of the batch's loss; a scalar through which gradients flow."""

    measures: Mapping[str, float]
    """What else to tell: their parts of the batch's values, by name, a share from 0 to 1 first."""


class Objective(nn.Module, ABC):
    """A loss of vectors; layers of its own are trained with the model and no part of it."""

    joint = False
    """Whether it must see all queries of a batch at once."""

    @abstractmethod
    def forward(self, queries: Tensor, documents: Tensor, part: Part) -> Found:
        """The part of the batch's loss that belongs to some queries.

        Args:
            queries: Their vectors (n, h), float32, of any length.
            documents: Vectors of all documents (C, h) that they are compared with.
            part: Which of those answers which query, and what else is known.
        """
