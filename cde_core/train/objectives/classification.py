"""SBERT's classification: which class is this pair of, by a layer over (u, v, |u − v|).

    queries (n, h), answers (n, h) ──▶ u, v, |u − v| (n, 3h) ──▶ linear ──▶ logits (n, L) ──▶ nats

The layer is part of the objective: it is trained with the model, at the learning rate of new parts,
kept in checkpoints, and thrown away at the end. What remains is an encoder whose vectors made the
classes easy to tell, so cosines are not what was trained; CoSENT trains those.

Source: Reimers and Gurevych (2019), section 3, https://arxiv.org/abs/1908.10084; equals
sentence-transformers' SoftmaxLoss.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cde_core.train.objectives.objective import Found, Objective, Part


class Classification(Objective):
    """Cross-entropy of telling each pair's class."""

    def __init__(self, width: int, classes: int, *, seed: int = 0) -> None:
        """Make the layer.

        Args:
            width: Of the vectors (h).
            classes: How many there are (L).
            seed: Of its first weights.
        """
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layer = nn.Linear(3 * width, classes)

    def forward(self, queries: Tensor, documents: Tensor, part: Part) -> Found:
        """The loss, in nats; tells accuracy."""
        answers = documents[part.columns.answers]
        logits = self.layer(torch.cat((queries, answers, (queries - answers).abs()), dim=1))
        labels = part.judged.labels
        right = int((logits.detach().argmax(dim=1) == labels).sum())
        loss = F.cross_entropy(logits, labels, reduction="sum") / part.batch
        return Found(loss, {"accuracy": right / part.batch})
