"""One transformer layer: attention that can look beyond its own rows, then a feed-forward part.

    rows (B, S, h) ──▶ Layer ──▶ rows (B, S, h)
                         ▲
    keys and values of rows in front (1 or B, P, heads, w), computed elsewhere

A layer takes keys and values of rows that stand in front of its own. That one opening is what makes
a context cheap: its keys and values are computed once per corpus and shown to every text.

Shapes: B texts, S rows, P rows in front, h hidden width, w = h / heads.

Source: Vaswani et al. (2017), https://arxiv.org/abs/1706.03762; rotary positions by Su et al.
(2021), https://arxiv.org/abs/2104.09864; gated feed-forward parts by Shazeer (2020),
https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cde_core.model.attention import KeyValues, attend
from cde_core.model.config import BackboneConfig
from cde_core.model.flash import Packed


class Rotation(NamedTuple):
    """Cosines and sines that turn queries and keys by their position."""

    cos: Tensor
    """(S, 1, w)"""

    sin: Tensor
    """(S, 1, w)"""

    def last(self, rows: int | None) -> Rotation:
        """Keep the last `rows` positions; None: all."""
        return self if rows is None else Rotation(self.cos[-rows:], self.sin[-rows:])


def rotation_at(positions: Tensor, width: int, theta: float) -> Rotation:
    """Rotation at `positions` (S,), for heads of `width`; at position 0 nothing turns."""
    exponents = torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) / width
    angles = positions.float()[:, None] * (1.0 / theta**exponents)  # (S, w/2)
    angles = torch.cat((angles, angles), dim=-1)[:, None, :]
    return Rotation(angles.cos(), angles.sin())


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn x (B, S, heads, w) by position; in float32, since angles are too fine for bfloat16."""
    left, right = x.chunk(2, dim=-1)
    swapped = torch.cat((-right, left), dim=-1)
    return (x * rotation.cos + swapped * rotation.sin).to(x.dtype)


class Attention(nn.Module):
    """Rows attend to one another, and to the rows in front."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden, bias=config.biases)
        self.out = nn.Linear(config.hidden, config.hidden, bias=config.biases)

    def queries(self, x: Tensor, rotation: Rotation | None) -> Tensor:
        """Queries (B, S, heads, w) of rows x (B, S, h)."""
        width = x.shape[-1]
        bias = None if self.qkv.bias is None else self.qkv.bias[:width]
        queries = F.linear(x, self.qkv.weight[:width], bias).view(*x.shape[:2], self.heads, -1)
        return queries if rotation is None else rotate(queries, rotation)

    def key_values(self, x: Tensor, rotation: Rotation | None) -> KeyValues:
        """Keys and values of rows x (B, S, h)."""
        width = x.shape[-1]
        bias = None if self.qkv.bias is None else self.qkv.bias[width:]
        both = F.linear(x, self.qkv.weight[width:], bias).view(*x.shape[:2], 2, self.heads, -1)
        keys, values = both.unbind(-3)
        return KeyValues(keys if rotation is None else rotate(keys, rotation), values)

    def forward(
        self,
        queries: Tensor,
        own: KeyValues,
        *,
        mask: Tensor | Packed | None,
        before: KeyValues | None,
        before_bias: Tensor | None,
    ) -> Tensor:
        """Rows (B, Q, h) that the queries gather; arguments as in `attend`."""
        gathered = attend(queries, own, mask=mask, before=before, before_bias=before_bias)
        rows: Tensor = self.out(gathered.flatten(-2))
        return rows


class FeedForward(nn.Module):
    """Widen, bend, narrow; gated where the activation says so."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.gated = config.activation != "gelu"
        self.bend = F.silu if config.activation == "swiglu" else F.gelu
        width = config.intermediate * (2 if self.gated else 1)
        self.up = nn.Linear(config.hidden, width, bias=config.biases)
        self.down = nn.Linear(config.intermediate, config.hidden, bias=config.biases)

    def forward(self, x: Tensor) -> Tensor:
        """Rows (B, S, h) from rows (B, S, h), each on its own."""
        wide = self.up(x)
        if self.gated:
            gate, value = wide.chunk(2, dim=-1)
            wide = self.bend(gate) * value
        else:
            wide = self.bend(wide)
        rows: Tensor = self.down(wide)
        return rows


class Dropping(nn.Module):
    """A layer that drops entries of what it adds, while a run that asks for it trains it."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = 0.0

    def drop(self, x: Tensor) -> Tensor:
        """The same with some entries zero and the others larger, in training; else x itself."""
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class Layer(Dropping):
    """Attention and feed-forward, each added to what came in; norms before or after."""

    def __init__(self, config: BackboneConfig, *, first: bool) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention = Attention(config)
        # A pre-norm stack normalises its embeddings, so its first layer need not do so again.
        self.attention_norm = nn.Identity() if self.pre and first else norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = norm(config)

    def key_values(self, x: Tensor, rotation: Rotation | None) -> KeyValues:
        """What rows x (B, S, h), on their way into this layer, show to others."""
        return self.attention.key_values(self.attention_norm(x) if self.pre else x, rotation)

    def forward(
        self,
        x: Tensor,
        *,
        rotation: Rotation | None = None,
        mask: Tensor | Packed | None = None,
        before: KeyValues | None = None,
        before_bias: Tensor | None = None,
        keep: int | None = None,
    ) -> Tensor:
        """Rows (B, keep or S, h) from rows x (B, S, h).

        Args:
            x: Rows on their way in.
            rotation: Of the S rows; None where positions are absolute.
            mask: True where a row is visible; broadcasts to (B, heads, keep or S, S); or packed.
            before: Keys and values of rows in front.
            before_bias: Added to the scores of the rows in front (heads,).
            keep: Compute only the last `keep` rows (all S are still seen); None: all.
        """
        kept = x if keep is None else x[:, -keep:]
        own = self.key_values(x, rotation)
        queries = self.attention.queries(
            self.attention_norm(kept) if self.pre else kept,
            None if rotation is None else rotation.last(keep),
        )
        kept = kept + self.drop(
            self.attention(queries, own, mask=mask, before=before, before_bias=before_bias)
        )
        if self.pre:
            return kept + self.drop(self.feed_forward(self.feed_forward_norm(kept)))
        kept = self.attention_norm(kept)
        rows: Tensor = self.feed_forward_norm(kept + self.drop(self.feed_forward(kept)))
        return rows


def set_dropout(model: nn.Module, probability: float) -> None:
    """Let every layer of a model drop entries of what it adds, while it is being trained.

    Dropout belongs to a run and not to a model, so no configuration has it and none is saved.
    """
    for module in model.modules():
        if isinstance(module, Dropping):
            module.dropout = probability


def norm(config: BackboneConfig) -> nn.LayerNorm:
    """Layer norm as this backbone has it."""
    return nn.LayerNorm(config.hidden, eps=config.norm_epsilon, bias=config.norm_biases)
