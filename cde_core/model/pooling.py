"""From one row per token to one vector per text, or to a few.

    rows (B, S, h) + mask (B, S) ──▶ pool ──▶ (B, h)        or        mean_of_spans ──▶ (B, T, h)

Poolings have the names that sentence-transformers gives them. The rules decide numbers that must
agree with published models: padding never counts, the closing token does, and an instruction
("search_query: ") may be left out of the mean.

Source: Morris and Rush (2024), https://arxiv.org/abs/2410.02525, and the authors' published code;
the poolings are those of Reimers and Gurevych (2019), https://arxiv.org/abs/1908.10084, and the
weighted mean is that of Muennighoff (2022), https://arxiv.org/abs/2202.08904
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

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


def first(rows: Tensor, mask: Tensor | None) -> Tensor:
    """First row (B, h) of each text."""
    return rows[:, 0]


def last(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Last row (B, h) of each text for which the mask is true; of one for which none is, zeros."""
    if mask is None:
        return rows[:, -1]
    places = torch.arange(1, rows.shape[1] + 1, device=rows.device) * mask  # (B, S), 1 is the first
    at = places.argmax(dim=1)
    found = rows[torch.arange(len(rows), device=rows.device), at]
    return found * mask.any(dim=1, keepdim=True)


def largest(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Largest of every number (B, h) over the rows that count; of a text without any, zeros."""
    if mask is None:
        return rows.amax(dim=1)
    counted = mask.bool()[:, :, None]
    found = rows.masked_fill(~counted, float("-inf")).amax(dim=1)
    return torch.where(counted.any(dim=1), found, 0)


def weighted_mean(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Mean (B, h) of the rows that count, with their places 1, 2, 3, … as weights."""
    places = torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=torch.float32)
    weights = places.expand(rows.shape[:2]) if mask is None else places * mask
    total = (rows.float() * weights[:, :, None]).sum(dim=1)
    return (total / weights.sum(dim=1, keepdim=True).clamp(min=1.0)).to(rows.dtype)


OF_ROWS: Mapping[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "mean": mean,
    "cls": first,
    "max": largest,
    "lasttoken": last,
    "weightedmean": weighted_mean,
}
"""Every pooling that needs nothing but rows (B, S, h) and mask (B, S); T5's decoder needs T5."""


def mean_of_spans(
    rows: Tensor, mask: Tensor | None, spans: int, *, of: Literal["text", "padded"] = "text"
) -> Tensor:
    """Means (B, spans, h) of contiguous spans of each text's rows (B, S, h).

    Args:
        rows: One row per token, padding included.
        mask: True for real tokens (B, S); None: all are.
        spans: How many.
        of: What is cut. "text": n tokens, every ceil(n / spans) of them, so the padding of a batch
            changes nothing; a span beyond the text's end takes the mean of the text. "padded": as
            published, the padded sequence, every ceil(S / spans) rows, so a text's spans depend on
            what it was padded to; a span without tokens takes the mean of the whole padded
            sequence, padding included.
    """
    whole = mean(rows, mask)
    if spans == 1:
        return whole[:, None]
    texts, length = rows.shape[:2]
    if mask is None:
        mask = rows.new_ones(texts, length, dtype=torch.bool)
    if of == "text":
        lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    else:
        lengths = torch.full((texts, 1), length, device=rows.device)
        # The published code lengthens S to a multiple of the spans by rows of zeros.
        whole = mean(rows, None) * (length / (-(-length // spans) * spans))
    size = (lengths + spans - 1).div(spans, rounding_mode="floor").clamp(min=1)
    span = torch.arange(length, device=rows.device).div(size, rounding_mode="floor")
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
