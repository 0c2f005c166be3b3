"""CoSENT: of two pairs, the one that people find more alike shall have the higher cosine.

    cosines (B,), scores (B,) ──▶ every two pairs with different scores ──▶ CoSENT, nats

    log(1 + Σ exp((cos_j − cos_i) / τ))   over all i, j with score_i > score_j

Only the order of the scores counts, so any scale will do, and what is trained is what is used: the
cosine. The sum is over pairs of pairs, so it needs the whole batch.

Source: Su (2022) and Huang et al. (2024), https://doi.org/10.1109/TASLP.2024.3402087; equals
sentence-transformers' CoSENTLoss with scale 1 / τ.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from cde_core.train.objectives.objective import Found, Objective, Part


class Cosent(Objective):
    """Order of cosines against order of scores."""

    joint = True

    def __init__(self, temperature: float) -> None:
        """Take what cosines are divided by (τ)."""
        super().__init__()
        self.temperature = temperature

    def forward(self, queries: Tensor, documents: Tensor, part: Part) -> Found:
        """The loss; tells `ordered`, the share of comparisons that cosines decide rightly.

        That share is NaN in a batch whose scores are all equal, which has a loss of zero.
        """
        cosines = F.cosine_similarity(queries, documents[part.columns.answers], dim=-1)
        loss, ordered = cosent(cosines, part.judged.scores, temperature=self.temperature)
        return Found(loss, {"ordered": ordered})


def cosent(cosines: Tensor, scores: Tensor, *, temperature: float) -> tuple[Tensor, float]:
    """The loss of cosines (B,) by scores (B,), and the share of comparisons that come out right."""
    higher = scores[:, None] > scores[None, :]  # (i, j): i shall have the higher cosine
    lead = cosines[:, None] - cosines[None, :]
    wrong = torch.where(higher, -lead / temperature, -torch.inf).flatten()
    loss = torch.logsumexp(torch.cat((wrong.new_zeros(1), wrong)), dim=0)
    return loss, float((lead.detach()[higher] > 0).double().mean())
