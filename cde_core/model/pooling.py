"""From one row per token to one vector per text, or to a few.

    rows (B, S, h) + mask (B, S) ──▶ mean ──▶ (B, h)        or        mean_of_spans ──▶ (B, T, h)

The rules decide numbers that must agree with published models: padding never counts, the closing
token does, and an instruction ("search_query: ") may be left out of the mean.

Source: Morris and Rush (2024), https://arxiv.org/abs/2410.02525, and the authors' published code.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mean(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Mean (B, h) of the rows (B, S, h) where the mask (B, S) is true; None: of all rows.

    Summed in float32; a text of which no row counts gives zeros.
    """
    if mask is None:
        return rows.float().mean(dim=1).to(rows.dtype)
    weights = mask.to(torch.float32)[:, :, None]
    total = (rows.float() * weights).sum(dim=1)
    return (total / weights.sum(dim=1).clamp(min=1.0)).to(rows.dtype)


def mean_of_spans(rows: Tensor, mask: Tensor | None, spans: int) -> Tensor:
    """Means (B, spans, h) of contiguous spans of each text's rows (B, S, h).

    A text of n tokens is cut every ceil(n / spans) tokens, so the padding of a batch changes
    nothing. (The published code cuts the padded sequence instead, which gives the same for texts
    that fill it; no released model has more than one span.) A text too short for all of its spans
    fills the rest with the mean of the whole.
    """
    whole = mean(rows, mask)
    if spans == 1:
        return whole[:, None]
    if mask is None:
        mask = rows.new_ones(rows.shape[:2], dtype=torch.bool)
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    size = (lengths + spans - 1).div(spans, rounding_mode="floor").clamp(min=1)
    span = torch.arange(rows.shape[1], device=rows.device).div(size, rounding_mode="floor")
    parts = []
    for number in range(spans):
        inside = mask.bool() & (span == number)
        filled = inside.any(dim=1, keepdim=True)
        parts.append(torch.where(filled, mean(rows, inside), whole))
    return torch.stack(parts, dim=1)


def after_instruction(ids: Tensor, mask: Tensor | None, colon_id: int) -> Tensor:
    """Mask (B, S) that leaves out the tokens up to and including the first colon.

    A text without a colon, or that begins with one, keeps all of its tokens.

    Args:
        ids: Token ids (B, S).
        mask: True for real tokens (B, S); None: all are.
        colon_id: Token of ":".
    """
    first = (ids == colon_id).int().argmax(dim=1, keepdim=True)  # 0 where there is none
    places = torch.arange(ids.shape[1], device=ids.device)
    counted = (places > first) | (first == 0)
    return counted if mask is None else counted & mask.bool()
