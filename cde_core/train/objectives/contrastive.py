"""The contrastive objective: pick each query's answer out of everything that its batch holds.

    queries (n, h), documents (C, h), columns ──▶ partition ──▶ logits (n, C) ──▶ Contrastive, nats
                                                      ▲
                                           ignored (n, C), temperature

SimCSE is this objective on other pairs: a text and itself, whose two passes differ by dropout alone
(`data.twice`); or a sentence, one that it entails, and as a hard negative one that contradicts it.

Source: Morris and Rush (2024), section 4.1, https://arxiv.org/abs/2410.02525, and the authors'
published trainer; van den Oord et al. (2018), equation 4, https://arxiv.org/abs/1807.03748; Gao et
al. (2021), SimCSE, https://arxiv.org/abs/2104.08821
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from cde_core.errors import ConfigError
from cde_core.train.objectives.columns import Columns
from cde_core.train.objectives.objective import Found, Objective, Part


class Contrastive(Objective):
    """Cross-entropy of picking each query's answer out of the batch, in nats."""

    def __init__(self, temperature: float) -> None:
        """Take what cosines are divided by."""
        super().__init__()
        self.temperature = temperature

    def forward(self, queries: Tensor, documents: Tensor, part: Part) -> Found:
        """As `contrastive_loss`; tells accuracy, and the share of columns that do not count."""
        logits = partition(
            queries, documents, part.columns, masked=part.ignored, temperature=self.temperature
        )
        return picked(logits, part)


def picked(logits: Tensor, part: Part) -> Found:
    """The loss of picking each query's answer by its logits (n, C), and what to tell of it."""
    answers = part.columns.answers
    right = int((logits.detach().argmax(dim=1) == answers).sum())
    ignored = 0 if part.ignored is None else int(part.ignored.sum())
    return Found(
        F.cross_entropy(logits, answers, reduction="sum") / part.batch,
        {"accuracy": right / part.batch, "ignored": ignored / (part.batch * logits.shape[1])},
    )


def contrastive_loss(
    queries: Tensor,
    documents: Tensor,
    columns: Columns,
    *,
    masked: Tensor | None = None,
    temperature: float = 0.02,
) -> Tensor:
    """Cross-entropy of picking each query's answer out of the batch.

    Args:
        queries: Vectors (B, h) of any length; cosines are compared.
        documents: Vectors (C, h).
        columns: Whose the documents are.
        masked: True where a column leaves a query's partition (B, C); answers always stay.
        temperature: What cosines are divided by; smaller means sharper.

    Returns:
        Mean over the queries, in nats. Blind guessing scores log C.

    Raises:
        ConfigError: If the temperature is not positive.
        ValueError: If the columns do not describe these queries and documents.
    """
    logits = partition(queries, documents, columns, masked=masked, temperature=temperature)
    return F.cross_entropy(logits, columns.answers)


def partition(
    queries: Tensor,
    documents: Tensor,
    columns: Columns,
    *,
    masked: Tensor | None = None,
    temperature: float = 0.02,
) -> Tensor:
    """Logits (B, C), float32, that `contrastive_loss` takes the cross-entropy of; same arguments.

    Columns that do not count stand at minus infinity.
    """
    if temperature <= 0:
        raise ConfigError(f"temperature is {temperature}; it must be positive.")
    shape = (len(columns.answers), len(columns.owners))
    if (len(queries), len(documents)) != shape:
        raise ValueError(f"{len(queries)} × {len(documents)} scores, but columns for {shape}")
    logits = F.normalize(queries, dim=-1) @ F.normalize(documents, dim=-1).T / temperature
    return without(logits, columns, masked).float()


def without(logits: Tensor, columns: Columns, masked: Tensor | None) -> Tensor:
    """Logits (B, C) with minus infinity where a column does not count; answers always do."""
    if masked is None:
        return logits
    return logits.masked_fill(masked & ~_at(columns.answers, masked), float("-inf"))


def _at(answers: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter(1, answers[:, None], True)
