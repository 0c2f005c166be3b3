"""Distillation: rank each query's own documents as a cross-encoder does, and contrast as well.

    teacher's logits ──▶ softmax over the answer and its hard negatives ──▶ p ─┐
    student's cosines / τ ──▶ softmax over the same ──▶ q ─────────────────────┴──▶ KL(p ‖ q)

    loss = KL(p ‖ q) + α · contrastive

A cross-encoder reads query and document together and is the better judge; how sure it is says more
than which document was labelled. It is too slow to be used in training, so its scores come with the
data: one for the answer and one for each hard negative. Other queries' documents, of which it was
not asked, count in the contrastive part alone.

Source: Wang et al. (2022), E5, section 4.3, https://arxiv.org/abs/2212.03533, where α = 0.2 and
τ = 0.01. sentence-transformers' DistillKLDivLoss multiplies the divergence by τ².
"""

from __future__ import annotations

import torch
from torch import Tensor

from cde_core.train.objectives.columns import Columns
from cde_core.train.objectives.contrastive import partition, picked, without
from cde_core.train.objectives.objective import Found, Objective, Part


class Distillation(Objective):
    """Divergence from a teacher's ranking of the own documents, plus a contrastive part."""

    def __init__(
        self, temperature: float, *, contrastive_weight: float = 0.2, teacher_temperature: float = 1
    ) -> None:
        """Take the settings.

        Args:
            temperature: What cosines are divided by (τ).
            contrastive_weight: Of the contrastive part (α); 0: none.
            teacher_temperature: What the teacher's logits are divided by.
        """
        super().__init__()
        self.temperature = temperature
        self.contrastive_weight = contrastive_weight
        self.teacher_temperature = teacher_temperature

    def forward(self, queries: Tensor, documents: Tensor, part: Part) -> Found:
        """The loss, in nats; tells accuracy and `divergence` (nats, without the other part)."""
        logits = partition(queries, documents, part.columns, temperature=self.temperature)
        teacher = part.judged.teacher.to(logits.dtype) / self.teacher_temperature
        apart = divergence(logits, teacher, part.columns) / part.batch
        contrastive = picked(without(logits, part.columns, part.ignored), part)
        return Found(
            apart + self.contrastive_weight * contrastive.loss,
            {**contrastive.measures, "divergence": apart.item()},
        )


def divergence(logits: Tensor, teacher: Tensor, columns: Columns) -> Tensor:
    """Sum over queries of KL(p ‖ q) on the documents that each brought, in nats.

    Args:
        logits: The student's (n, C).
        teacher: The teacher's (C,), each for the query that brought the column.
        columns: Whose the documents are.
    """
    own = columns.own
    student = logits.masked_fill(~own, -torch.inf).log_softmax(dim=1)
    wanted = teacher.expand_as(logits).masked_fill(~own, -torch.inf).log_softmax(dim=1)
    # Where a column is another's, both are minus infinity, and it adds nothing.
    apart = wanted.masked_fill(~own, 0) - student.masked_fill(~own, 0)
    return (wanted.exp() * apart).sum()
