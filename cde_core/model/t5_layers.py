"""One layer of T5's encoder, and one of its decoder.

    rows (B, S, h) ──▶ EncoderLayer ──▶ rows (B, S, h)
    rows (B, T, h) ──▶ DecoderLayer ──▶ rows (B, T, h)
                            ▲
             rows of a text (B, S, h), which it looks across to

Every part normalises what goes in and adds what comes out. Scores are not divided by the root of a
head's width, since T5's first weights were made smaller instead; our attention divides, so queries
are multiplied by it first.

Shapes: B texts, S rows of a text, T rows of the decoder, h hidden width, w width of a head.

Source: Raffel et al. (2020), section 2.1, https://arxiv.org/abs/1910.10683; gated feed-forward
parts by Shazeer (2020), https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from cde_core.model.attention import KeyValues, attend
from cde_core.model.flash import Packed
from cde_core.model.t5_config import T5Config
from cde_core.model.transformer import Dropping, Rotation, rotate

Seen = Tensor | Packed | None
"""What rows may see: a mask (True where visible), a bias on scores (-inf where not), both of a
shape that broadcasts to (B, heads, Q, S); what the flash kernel needs; None: everything."""


class Attention(nn.Module):
    """Rows attend to one another, or to those of a text."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        inner = config.heads * config.head_width
        self.heads, self.scale = config.heads, math.sqrt(config.head_width)
        self.query = nn.Linear(config.hidden, inner, bias=False)
        self.key_value = nn.Linear(config.hidden, 2 * inner, bias=False)
        self.out = nn.Linear(inner, config.hidden, bias=False)

    def forward(
        self, x: Tensor, others: Tensor, *, seen: Seen, rotation: Rotation | None = None
    ) -> Tensor:
        """Rows (B, Q, h) that rows x (B, Q, h) gather of others (B, S, h)."""
        queries = (self.query(x) * self.scale).view(*x.shape[:2], self.heads, -1)
        both = self.key_value(others).view(*others.shape[:2], 2, self.heads, -1)
        keys, values = both.unbind(-3)
        if rotation is not None:
            queries, keys = rotate(queries, rotation), rotate(keys, rotation)
        if isinstance(seen, Tensor) and seen.is_floating_point():
            seen = seen.to(queries.dtype)
        gathered = attend(queries, KeyValues(keys, values), mask=seen)
        rows: Tensor = self.out(gathered.flatten(-2))
        return rows


class FeedForward(nn.Module):
    """Widen, bend, narrow; gated where the activation says so."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        bends: dict[str, Callable[[Tensor], Tensor]]
        bends = {"relu": F.relu, "geglu": partial(F.gelu, approximate="tanh"), "swiglu": F.silu}
        self.bend, self.gated = bends[config.activation], config.activation != "relu"
        width = config.intermediate * (2 if self.gated else 1)
        self.up = nn.Linear(config.hidden, width, bias=False)
        self.down = nn.Linear(config.intermediate, config.hidden, bias=False)

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


class EncoderLayer(Dropping):
    """Attention of a text's rows to one another, then feed-forward."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention_norm = norm(config)
        self.attention = Attention(config)
        self.feed_forward_norm = norm(config)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, *, seen: Seen, rotation: Rotation | None = None) -> Tensor:
        """Rows (B, S, h) from rows x (B, S, h)."""
        inside = self.attention_norm(x)
        x = x + self.drop(self.attention(inside, inside, seen=seen, rotation=rotation))
        return x + self.drop(self.feed_forward(self.feed_forward_norm(x)))


class DecoderLayer(Dropping):
    """Attention to the rows before, then to those of a text, then feed-forward."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention_norm = norm(config)
        self.attention = Attention(config)
        self.across_norm = norm(config)
        self.across = Attention(config)
        self.feed_forward_norm = norm(config)
        self.feed_forward = FeedForward(config)

    def forward(
        self,
        x: Tensor,
        text: Tensor,
        *,
        seen: Seen,
        seen_of_text: Seen,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Rows (B, T, h) from rows x (B, T, h) and those of the text (B, S, h)."""
        inside = self.attention_norm(x)
        x = x + self.drop(self.attention(inside, inside, seen=seen, rotation=rotation))
        x = x + self.drop(self.across(self.across_norm(x), text, seen=seen_of_text))
        return x + self.drop(self.feed_forward(self.feed_forward_norm(x)))


def norm(config: T5Config) -> nn.RMSNorm:
    """Division by the root of the mean square, and no shift."""
    return nn.RMSNorm(config.hidden, eps=config.norm_epsilon)
