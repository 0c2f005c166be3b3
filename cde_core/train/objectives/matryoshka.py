"""Matryoshka: the first dimensions of a vector shall serve alone.

    vectors (n, h) ──▶ the first m dimensions, scaled to length one ──▶ objective ──▶ × weight ─┐
                              for every m of the dimensions                                      Σ

Any objective will do: it is asked once per number of dimensions, and the losses are added. One with
a layer of its own has one for each.

Source: Kusupati et al. (2022), https://arxiv.org/abs/2205.13147; equals sentence-transformers'
MatryoshkaLoss, which scales to length one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from cde_core.train.objectives.objective import Found, Objective, Part


class Matryoshka(Objective):
    """Weighted sum of an objective over the first dimensions of the vectors."""

    def __init__(
        self,
        of_width: Callable[[int], Objective],
        dimensions: Sequence[int],
        weights: Sequence[float] = (),
    ) -> None:
        """Make an objective for every number of dimensions.

        Args:
            of_width: Gives the objective for vectors of a width.
            dimensions: How many dimensions are kept, each time.
            weights: Of each; none: 1.
        """
        super().__init__()
        self.weights = dict(zip(dimensions, weights or [1.0] * len(dimensions), strict=True))
        self.inner = nn.ModuleDict({str(kept): of_width(kept) for kept in dimensions})
        self.joint = any(one.joint for one in self.inner.values())  # all are alike

    def forward(self, queries: Tensor, documents: Tensor, part: Part) -> Found:
        """The sum; tells what the objective tells of the most dimensions, and each one's loss."""
        found = {
            kept: self.inner[str(kept)](first(queries, kept), first(documents, kept), part)
            for kept in self.weights
        }
        losses = [weight * found[kept].loss for kept, weight in self.weights.items()]
        each = {f"loss_{kept}": one.loss.item() for kept, one in found.items()}
        return Found(sum(losses[1:], losses[0]), {**found[max(found)].measures, **each})


def first(vectors: Tensor, kept: int) -> Tensor:
    """The first dimensions (n, kept) of vectors (n, h), scaled to length one."""
    return F.normalize(vectors[:, :kept], dim=-1)
