"""Attention without padding, by the flash-attn package, where it is installed and fits.

    mask (B, S) ──▶ Rows (where real rows lie) ──▶ Packed ──▶ attend_packed ──▶ (B, Q, heads, w)

Padding is taken out, all texts stand in one line, and the kernel is told where each begins; windows
need no mask, and count real rows alone, so padding belongs at a text's end, where `tokens.pad` puts
it. It runs on CUDA in half precision. Whether it is used is decided once per call of a
backbone, by `fits`; everything else goes through PyTorch's own attention.

Rows in front are attended to apart from a text's own, and the two answers are weighed by their
softmax normalisers, as in `attention.attend_apart`: a context shared by all texts is never copied,
and a bias on it costs one addition. The kernel passes no gradients through normalisers, so training
with rows in front goes through PyTorch.

Source: Dao (2023), https://arxiv.org/abs/2307.08691; the signature of flash-attn 2.7.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

DEVICES = {"cuda"}
"""Where the kernel runs."""

PRECISIONS = {torch.float16, torch.bfloat16}
"""What it computes in."""

WIDEST_HEAD = 256


class Rows(NamedTuple):
    """Where the real rows of padded texts lie."""

    places: Tensor
    """Of every real row among the B · S rows, padding included (n,)."""

    starts: Tensor
    """Of every text among the n real rows, and their end (B + 1,), int32."""

    longest: int
    """Rows of the longest text."""

    def take(self, padded: Tensor) -> Tensor:
        """The real rows (n, heads, w) of padded ones (B, S, heads, w)."""
        return padded.flatten(0, 1).index_select(0, self.places)

    def put(self, rows: Tensor, like: Tensor) -> Tensor:
        """Rows (n, heads, w) where they lie in a tensor of zeros shaped as `like`."""
        flat = torch.zeros_like(like).flatten(0, 1)
        return flat.index_copy_(0, self.places, rows).view_as(like)


class Packed(NamedTuple):
    """What stands in for an attention mask: real rows, and how far they see."""

    queries: Rows
    """Rows that ask: in each text, the last of those that are seen."""

    seen: Rows
    """Rows that are seen."""

    window: int
    """How far to either side a row sees; 0: everything."""


def fits(x: Tensor, *, head_width: int, in_front: bool) -> bool:
    """Whether rows x (B, S, h) can go through the kernel, by heads of this width."""
    device = x.device.type
    if device not in DEVICES:
        return False
    mixed = torch.is_autocast_enabled(device)
    return (
        (torch.get_autocast_dtype(device) if mixed else x.dtype) in PRECISIONS
        and head_width <= WIDEST_HEAD
        and not (in_front and torch.is_grad_enabled())
        and _installed()
    )


def real_rows(mask: Tensor) -> Rows:
    """Where a mask (B, S) is true."""
    lengths = mask.sum(dim=1, dtype=torch.int32)
    starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return Rows(mask.flatten().nonzero().flatten(), starts, int(lengths.max()))


def attend_packed(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    packed: Packed,
    *,
    front_keys: Tensor | None = None,
    front_values: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """What the queries gather, zeros for padding; arguments and shapes as in `attention.attend`."""
    asking, seen = packed.queries, packed.seen
    window = (packed.window, packed.window) if packed.window else (-1, -1)
    own = (seen.take(keys), seen.take(values))
    flat = asking.take(queries)
    if front_keys is None or front_values is None:
        return asking.put(_kernel(flat, *own, asking, seen, window_size=window), queries)
    rows, log_own, _ = _kernel(flat, *own, asking, seen, window_size=window, return_attn_probs=True)
    in_front = _same_length(front_keys)
    # With one context for all texts, all of their queries are those of a single text.
    asking_front = asking if len(front_keys) > 1 else _same_length(flat[None])
    front, log_front, _ = _kernel(
        flat,
        front_keys.flatten(0, 1).to(flat.dtype),
        front_values.flatten(0, 1).to(flat.dtype),
        asking_front,
        in_front,
        return_attn_probs=True,
    )
    if bias is not None:
        log_front = log_front + bias.float()[:, None]
    share = torch.sigmoid(log_front - log_own).T[..., None].to(rows.dtype)  # (n, heads, 1)
    return asking.put(torch.lerp(rows, front, share), queries)


def _kernel(
    queries: Tensor, keys: Tensor, values: Tensor, asking: Rows, seen: Rows, **options: Any
) -> Any:
    """Rows (n, heads, w); with `return_attn_probs` also log normalisers (heads, n), and a third."""
    return import_module("flash_attn").flash_attn_varlen_func(
        queries,
        keys,
        values,
        cu_seqlens_q=asking.starts,
        cu_seqlens_k=seen.starts,
        max_seqlen_q=asking.longest,
        max_seqlen_k=seen.longest,
        **options,
    )


def _same_length(padded: Tensor) -> Rows:
    """Rows of texts (B, S, heads, w) without padding."""
    texts, length = padded.shape[:2]
    ends = torch.arange(texts + 1, device=padded.device, dtype=torch.int32) * length
    return Rows(torch.arange(texts * length, device=padded.device), ends, length)


@cache
def _installed() -> bool:
    return find_spec("flash_attn") is not None
