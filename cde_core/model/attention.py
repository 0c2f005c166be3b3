"""Attention of rows to one another and to rows in front of them.

    queries (B, Q, heads, w) ──▶ attend ──▶ rows (B, Q, heads, w)
                                   ▲  ▲
      own keys and values (B, S) ──┘  └── keys and values in front (1 or B, P), with a bias

Two ways to the same numbers. *Joined*: copy what is in front before every text's own rows and
attend once; works everywhere, and gradients flow through it. *Apart*: attend to both separately and
weigh the two answers by their softmax normalisers. With a context shared by all texts this copies
nothing, and on CPUs the copying is most of what a cached context costs. It needs the normalisers,
which PyTorch's CPU kernel gives but its public function withholds, so it serves inference on CPUs
only. (On GPUs, `flash` goes the second way where its package is installed.)

Source of the second way: Juravsky et al. (2024), https://arxiv.org/abs/2402.05099
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cde_core.model.flash import Packed, attend_packed


class KeyValues(NamedTuple):
    """What rows show to the rows that attend to them; the keys are rotated already."""

    keys: Tensor
    """(1 or B, P, heads, w)"""

    values: Tensor
    """(1 or B, P, heads, w)"""


def attend(
    queries: Tensor,
    own: KeyValues,
    *,
    mask: Tensor | Packed | None = None,
    before: KeyValues | None = None,
    before_bias: Tensor | None = None,
) -> Tensor:
    """What the queries (B, Q, heads, w) gather, in the same shape.

    Args:
        queries: Rotated queries.
        own: Keys and values of the S rows themselves.
        mask: True where an own row is visible; broadcasts to (B, heads, Q, S). None: all are.
            Packed: the flash kernel is to be used, and this is what it needs.
        before: Keys and values of P rows in front, always visible.
        before_bias: Added to the scores of the rows in front (heads,); None: nothing.
    """
    if isinstance(mask, Packed):
        keys, values = before or (None, None)
        return attend_packed(
            queries, *own, mask, front_keys=keys, front_values=values, bias=before_bias
        )
    if before is None:
        return _attend(queries, own, mask)
    if _can_attend_apart(queries, before):
        return attend_apart(queries, own, mask, before, before_bias)
    return attend_joined(queries, own, mask, before, before_bias)


def attend_joined(
    queries: Tensor, own: KeyValues, mask: Tensor | None, before: KeyValues, bias: Tensor | None
) -> Tensor:
    """Copy the rows in front before every text's own, and attend once."""
    texts, in_front, length = len(queries), before.keys.shape[1], own.keys.shape[1]
    keys, values = (
        torch.cat((front.expand(texts, -1, -1, -1), rows), dim=1)
        for front, rows in zip(before, own, strict=True)
    )
    visible = None if mask is None else F.pad(mask, (in_front, 0), value=True)
    if bias is None:
        return _attend(queries, KeyValues(keys, values), visible)
    on_front = bias.to(queries.dtype)[None, :, None, None].expand(1, -1, 1, in_front)
    scores = F.pad(on_front, (0, length))
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return _attend(queries, KeyValues(keys, values), scores)


def attend_apart(
    queries: Tensor, own: KeyValues, mask: Tensor | None, before: KeyValues, bias: Tensor | None
) -> Tensor:
    """Attend to both separately; CPU, without gradients, and with one set of rows in front.

    With answers a, b and logarithms of normalisers log A, log B, attending to both at once gives
    (A·a + B·b) / (A + B) = b + (a - b) · sigmoid(log A - log B), and a bias on A's scores is added
    to log A.
    """
    together = queries.flatten(0, 1)[None]  # every text's queries as those of a single text
    front, log_front = _attend_on_cpu(together, before, None)
    front = front[0].view_as(queries)
    log_front = log_front[0].view(queries.shape[:3])  # (B, Q, heads)
    rows, log_own = _attend_on_cpu(queries, own, mask)
    if bias is not None:
        log_front = log_front + bias.float()
    share = torch.sigmoid(log_front - log_own)[..., None].to(rows.dtype)
    return torch.lerp(rows, front, share)


def _attend(queries: Tensor, seen: KeyValues, mask: Tensor | None) -> Tensor:
    rows: Tensor = F.scaled_dot_product_attention(
        queries.transpose(1, 2),
        seen.keys.transpose(1, 2),
        seen.values.transpose(1, 2),
        attn_mask=mask,
    )
    return rows.transpose(1, 2)


def _can_attend_apart(queries: Tensor, before: KeyValues) -> bool:
    return (
        queries.device.type == "cpu"
        and not torch.is_grad_enabled()
        and len(before.keys) == 1
        and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
    )


def _attend_on_cpu(queries: Tensor, seen: KeyValues, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows (B, Q, heads, w), and the logarithm of every softmax's normaliser (B, Q, heads)."""
    hidden = None
    if mask is not None:
        hidden = torch.zeros_like(mask, dtype=queries.dtype).masked_fill(~mask, float("-inf"))
    rows, log_normaliser = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        queries.transpose(1, 2),
        seen.keys.transpose(1, 2),
        seen.values.transpose(1, 2),
        attn_mask=hidden,
    )
    return rows.transpose(1, 2), log_normaliser.transpose(1, 2)
