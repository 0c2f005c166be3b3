"""The gradient of a batch of gaps to be filled in, some texts at a time.

    Examples ──▶ encoder ──▶ decoder, one word behind ──▶ word scores ──▶ cross-entropy ──▶ .grad

The loss is the mean over all words of the batch that are to be said, so neither chunks nor the
number of processes change it. Under mixed precision the cross-entropy is computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from cde_core.model.t5 import T5
from cde_core.text import token_budget_batches
from cde_core.tokens import pad
from cde_core.train.distributed import World
from cde_core.train.pretraining.language_batches import Example

NOT_SAID = -100
"""Marks padding among the words to be said."""


@dataclass(frozen=True, slots=True)
class LanguageLoss:
    """What a batch says of the model, before the step."""

    loss: float
    """Cross-entropy in nats, mean over words."""

    accuracy: float
    """Share of the words that the model would have said."""

    words: int
    """Words that were to be said, over all processes."""


def language_gradient(
    model: T5,
    examples: Sequence[Example],
    *,
    tokens_at_once: int,
    precision: torch.dtype = torch.float32,
    world: World | None = None,
) -> LanguageLoss:
    """Add a batch's gradient to every parameter's.

    Args:
        model: With its decoder.
        examples: Those of this process.
        tokens_at_once: Tokens per chunk, padding included; bounds memory, not the gradient.
        precision: Of the arithmetic; weights and gradients are float32.
        world: The processes; None: this one alone.
    """
    world = world or World(device=model.words.weight.device)
    device = world.device
    own = torch.tensor([float(sum(len(one.said) for one in examples))], device=device)
    words = world.total(own).item()
    sums = torch.zeros(2, device=device)  # loss, words that are right
    lengths = [len(one.read) + len(one.said) for one in examples]
    for chunk in token_budget_batches(lengths, tokens_at_once):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision != torch.float32):
            scores, said = word_scores(model, [examples[i] for i in chunk], device)
        loss = F.cross_entropy(
            scores.flatten(0, 1).float(), said.flatten(), ignore_index=NOT_SAID, reduction="sum"
        )
        torch.autograd.backward(loss / words)
        right = (scores.detach().argmax(-1) == said).sum()
        sums += torch.stack([loss.detach(), right.float()])
    world.total_gradients(model.parameters())
    loss_sum, right_sum = world.total(sums).tolist()
    return LanguageLoss(loss_sum / words, right_sum / words, int(words))


def word_scores(
    model: T5, examples: Sequence[Example], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Logits (B, T, vocabulary) of the words to be said, and these words (B, T) or NOT_SAID."""
    ids, mask = pad([one.read for one in examples])
    ids, mask = ids.to(device), None if mask is None else mask.to(device)
    said, there = pad([one.said for one in examples])
    heard = F.pad(said[:, :-1], (1, 0), value=model.config.start)
    if there is not None:
        said = said.masked_fill(~there, NOT_SAID)
    rows = model.decode(heard.to(device), model(ids, mask), mask)
    return model.word_scores(rows), said.to(device)
