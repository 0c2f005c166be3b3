"""Whose the documents of a batch are, and which of them count for a query.

    queries (B), documents (C) ──▶ columns ──▶ Columns ──┬──▶ objectives
                     surrogate scores (B, C) ──▶ false_negatives ──▶ masked (B, C)

A batch of B queries, each with n hard negatives, has C = B · (1 + n) documents, and a contrastive
objective scores every query against all of them: other queries' answers and hard negatives count as
its negatives. Dense batches hold documents that answer a query without being labelled so. A frozen
surrogate S finds them: column d' leaves the partition of query q, whose answer is d, where
S(q, d') ≥ S(q, d) + ε.

The paper writes ε and gives it no value. The authors' code has one threshold with two meanings: at
1.0, their setting, it compares with the answer's score, which is ε = 0 (`false_negatives`); at any
other value it compares with that value itself, whatever the answer scored (`similar_beyond`).

Masks are boolean tensors (B, C), true where a column does not count: look at them, count them,
join them with `|`.

Source: Morris and Rush (2024), section 4.1, https://arxiv.org/abs/2410.02525, and the authors'
published trainer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cde_core.errors import ConfigError


class Columns(NamedTuple):
    """Whose the documents of a batch are."""

    answers: Tensor
    """Column that answers each query (B,)."""

    owners: Tensor
    """Query that brought each column, as its answer or as a hard negative (C,)."""

    @property
    def own(self) -> Tensor:
        """True where a query brought the column itself (B, C)."""
        queries = torch.arange(len(self.answers), device=self.owners.device)
        return queries[:, None] == self.owners

    def of(self, queries: Tensor) -> Columns:
        """The same for some of the queries (n,), which are then numbered from 0."""
        place = torch.full_like(self.answers, -1)
        place[queries] = torch.arange(len(queries), device=place.device)
        return Columns(self.answers[queries], place[self.owners])

    def among(self, documents: Tensor) -> Columns:
        """The same with some of the columns (c,) alone, every answer among them."""
        place = torch.full_like(self.owners, -1)
        place[documents] = torch.arange(len(documents), device=place.device)
        return Columns(place[self.answers], self.owners[documents])


def columns(
    queries: int, negatives: int = 0, *, devices: int = 1, device: torch.device | None = None
) -> Columns:
    """The usual order of documents: all answers, then every query's hard negatives in turn.

    Args:
        queries: B, over all devices.
        negatives: Hard negatives per query (n).
        devices: How many devices' batches were gathered; each lays out its own part so.
        device: Where the masks will be used.

    Raises:
        ConfigError: If the devices cannot share the queries equally.
    """
    if queries % devices:
        raise ConfigError(f"{devices} devices cannot share {queries} queries equally.")
    here = torch.arange(queries, device=device).view(devices, -1)  # (device, query of the device)
    owners = torch.cat((here, here.repeat_interleave(negatives, dim=1)), dim=1)
    before = torch.arange(devices, device=device)[:, None] * here.shape[1] * negatives
    return Columns(answers=(here + before).flatten(), owners=owners.flatten())


def false_negatives(scores: Tensor, columns: Columns, *, margin: float = 0.0) -> Tensor:
    """Columns (B, C) that a surrogate scores as high as the answer plus `margin`, or higher.

    Args:
        scores: The surrogate's similarities of queries and documents (B, C).
        columns: Whose the documents are; a query's own hard negatives are never masked.
        margin: ε; negative values mask more.
    """
    answered = scores.gather(1, columns.answers[:, None])
    return (scores >= answered + margin) & ~columns.own


def similar_beyond(scores: Tensor, columns: Columns, *, threshold: float) -> Tensor:
    """Columns (B, C) that a surrogate scores at least `threshold`, whatever the answer scores."""
    return (scores >= threshold) & ~columns.own


def negatives_of_others(columns: Columns) -> Tensor:
    """Columns (B, C) that other queries brought; mask them to learn from hard negatives alone."""
    return ~columns.own
