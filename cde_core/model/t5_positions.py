"""How T5 knows positions: a learned bias per distance, or rotary positions in its place.

    lengths ──▶ RelativeBias ──▶ bias (1, heads, Q, K), added to scores
    length  ──▶ rotation     ──▶ cosines and sines that turn queries and keys

Near distances have a bucket each, far ones share buckets that grow with their logarithm. An encoder
tells before from behind; a decoder sees only what is before.

Source: Raffel et al. (2020), section 2.1, https://arxiv.org/abs/1910.10683
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from cde_core.model.t5_config import T5Config
from cde_core.model.transformer import Rotation, rotation_at


class RelativeBias(nn.Module):
    """A learned number per head and bucket of distances."""

    def __init__(self, config: T5Config, *, both_sides: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.buckets, config.heads))
        nn.init.normal_(self.weight, std=config.hidden**-0.5)
        self.farthest, self.both_sides = config.farthest, both_sides

    def forward(self, length: int) -> Tensor:
        """Bias (1, heads, S, S) of row q on column k, for S rows one place apart."""
        places = torch.arange(length, device=self.weight.device)
        buckets = bucket_of(
            places[None, :] - places[:, None],
            count=len(self.weight),
            farthest=self.farthest,
            both_sides=self.both_sides,
        )
        return self.weight[buckets].permute(2, 0, 1)[None]


def bucket_of(ahead: Tensor, *, count: int, farthest: int, both_sides: bool) -> Tensor:
    """Bucket of every distance, in the same shape.

    Args:
        ahead: How many places a column is ahead of its row; below 0: before it.
        count: How many buckets there are.
        farthest: Distance from which all share the last one.
        both_sides: Half of the buckets are for columns ahead; if not, those count as distance 0.
    """
    first = torch.zeros_like(ahead)
    if both_sides:
        count //= 2
        first, distance = (ahead > 0).long() * count, ahead.abs()
    else:
        distance = (-ahead).clamp(min=0)
    near = count // 2  # distances below this have a bucket each
    growth = torch.log(distance.clamp(min=1).float() / near) / math.log(farthest / near)
    far = (near + (growth * (count - near)).long()).clamp(max=count - 1)
    return first + torch.where(distance < near, distance, far)


def rotation(config: T5Config, length: int, device: torch.device) -> Rotation | None:
    """Rotation of rows 0 to S - 1; None where positions are a bias."""
    if config.position != "rotary":
        return None
    positions = torch.arange(length, device=device)
    return rotation_at(positions, config.head_width, config.stretched_theta)
