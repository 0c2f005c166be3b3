"""The gradient of a large batch in the memory of a small one, for models of one stage or two.

    contexts ──▶ first stage ──▶ vectors ──▶ prepare ──▶ second stage ──▶ embeddings ──▶ loss
              ◀── re-run, chunk by chunk ◀── kept ◀── re-run, chunk by chunk ◀────────────┘

A contrastive loss needs every embedding of a batch at once, but the graph that made an embedding
only while its gradient flows back. So embeddings are computed first without graphs; the loss tells
each its gradient; then every chunk is computed again with its graph and sends that gradient
through. Memory is set by the chunk, the result is the batch's own gradient, and the price is a
second forward pass. With two stages, the gradients that arrive at the context are collected over
all chunks of the second stage, and sent through the first stage in the same way.

What stands between the stages, `prepare`, depends on the context alone: it runs once, and keeps its
graph. Where a model draws random numbers (dropout), the second run draws those of the first.

Source: Gao et al. (2021), https://arxiv.org/abs/2101.06983; Morris and Rush (2024), section 4.2,
"Two-stage gradient caching", https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from cde_core.model.attention import KeyValues
from cde_core.model.contextual import Prepared
from cde_core.text import token_budget_batches
from cde_core.tokens import Tokens, pad

Embed = Callable[[Tensor, Tensor | None], Tensor]
"""Vectors (b, h) of token ids (b, S) and their mask (b, S)."""


class CachedTexts:
    """Vectors of texts, computed chunk by chunk in both directions."""

    def __init__(
        self,
        embed: Embed,
        texts: Sequence[Tokens],
        *,
        device: torch.device,
        tokens_at_once: int,
        rows_in_front: int = 0,
        keep_graphs: bool = False,
    ) -> None:
        """Plan the chunks; nothing is computed yet.

        Args:
            embed: The model, as a function of token ids and mask alone.
            texts: Token ids of every text.
            device: Where to compute.
            tokens_at_once: Tokens per chunk, padding included.
            rows_in_front: Rows that every text costs beyond its tokens.
            keep_graphs: Keep every chunk's graph instead of computing it again: a third faster,
                and memory grows with the number of texts.
        """
        self._embed = embed
        self._texts = texts
        self._device = device
        self._keep_graphs = keep_graphs
        lengths = [len(text) for text in texts]
        self._chunks = list(token_budget_batches(lengths, tokens_at_once, extra=rows_in_front))
        self._random: list[RandomState] = []
        self._kept: list[Tensor] = []

    def forward(self) -> Tensor:
        """Vectors (n, h) of all texts in their order, float32, without a graph."""
        found = []
        for chunk in self._chunks:
            with torch.set_grad_enabled(self._keep_graphs):
                self._random.append(RandomState(self._device))
                vectors = self._run(chunk)
            if self._keep_graphs:
                self._kept.append(vectors)
            found.append(vectors.detach())
        order = torch.tensor([row for chunk in self._chunks for row in chunk], device=self._device)
        together = torch.cat(found)
        return torch.empty_like(together).index_copy_(0, order, together)

    def backward(self, gradient: Tensor) -> None:
        """Send the gradient (n, h) of all texts through the model; call it once, after forward."""
        for number, chunk in enumerate(self._chunks):
            if self._keep_graphs:
                vectors = self._kept[number]
            else:
                with self._random[number].again():
                    vectors = self._run(chunk)
            if vectors.requires_grad:
                rows = torch.tensor(chunk, device=self._device)
                torch.autograd.backward(vectors, gradient[rows])
        self._kept.clear()

    def _run(self, chunk: list[int]) -> Tensor:
        ids, mask = pad([self._texts[row] for row in chunk])
        mask = None if mask is None else mask.to(self._device)
        return self._embed(ids.to(self._device), mask).float()


class CachedContext:
    """A context between the stages: its graph is kept, and its gradient collected from chunks."""

    def __init__(self, prepare: Callable[[Tensor], Prepared], vectors: Tensor) -> None:
        """Prepare the context.

        Args:
            prepare: From the first stage's vectors to what the second stage takes.
            vectors: Of the first stage (n, h).
        """
        self.vectors = vectors.detach().requires_grad_()
        with torch.enable_grad():
            self._outputs = prepare(self.vectors)
        self.prepared = _cut_off(self._outputs)

    def backward(self) -> Tensor:
        """Gradient (n, h) of the vectors, once all of the second stage has sent its own."""
        outputs, leaves = _tensors(self._outputs), _tensors(self.prepared)
        reached = [
            (output, leaf.grad)
            for output, leaf in zip(outputs, leaves, strict=True)
            if leaf.grad is not None and output.requires_grad
        ]
        if reached:
            torch.autograd.backward([o for o, _ in reached], [gradient for _, gradient in reached])
        gradient = self.vectors.grad
        return torch.zeros_like(self.vectors) if gradient is None else gradient


class RandomState:
    """The random numbers that are about to be drawn, so that they can be drawn again."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._states = _random_states(device)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Within this, they are drawn again; afterwards all is as if they had not been."""
        now = _random_states(self._device)
        _set_random_states(self._device, self._states)
        try:
            yield
        finally:
            _set_random_states(self._device, now)


def _random_states(device: torch.device) -> list[Tensor]:
    """Of the CPU, and of the device where that is another."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    elif device.type == "mps":
        states.append(torch.mps.get_rng_state())
    return states


def _set_random_states(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(states[1])


def _tensors(prepared: Prepared) -> list[Tensor]:
    """Every tensor of a prepared context that a text may see."""
    if prepared.key_values is None:
        return [prepared.rows]
    return [tensor for layer in prepared.key_values for tensor in layer]


def _cut_off(prepared: Prepared) -> Prepared:
    """The same values as leaves, which collect gradients and pass none on."""
    if prepared.key_values is None:
        return Prepared(prepared.rows.detach().requires_grad_(), None)
    leaves = [
        KeyValues(*(tensor.detach().requires_grad_() for tensor in layer))
        for layer in prepared.key_values
    ]
    return Prepared(prepared.rows.detach(), leaves)
