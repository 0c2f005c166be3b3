"""A model's weights as their difference from weights that others have already.

    weights, base ──▶ compress ──▶ small tensors ──▶ restore (+ the same base) ──▶ weights, nearly

What training changes is small beside what it started from, so a trained model can be handed out in
a tenth of its size, without the backbone that it was made of. Weights that did not change are left
out; matrices that did are kept as a product of two thin ones (`rank:64`), as bytes with a scale per
row (`int8`), or at half width (`bfloat16`); everything else, at half width.

Source: the truncated singular value decomposition is the best product of that rank (Eckart and
Young, 1936); LoRA trains one (Hu et al., 2021), https://arxiv.org/abs/2106.09685
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from cde_core.errors import ConfigError, ModelError

LEFT, RIGHT, STEPS, SCALE = ".left", ".right", ".steps", ".scale"
SUFFIXES = (LEFT, RIGHT, STEPS, SCALE)
LARGEST_STEP = 127


def compress(
    weights: Mapping[str, Tensor], base: Mapping[str, Tensor], *, matrices: str = "int8"
) -> dict[str, Tensor]:
    """Tensors from which `restore` makes the weights again.

    Args:
        weights: Of the model, by name.
        base: What some of them were; the others are new, and their base is zero.
        matrices: How matrices of the base are kept: bfloat16, int8, or rank:R.

    Raises:
        ConfigError: If `matrices` is none of these.
        ModelError: If a weight has another shape than its base.
    """
    rank = _rank(matrices)
    kept: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name not in base:
            kept[name] = weight.to(torch.bfloat16)
            continue
        _require_shape(name, weight, base[name])
        difference = weight.float() - base[name].float()
        if not difference.any():
            continue
        if difference.dim() != 2 or matrices == "bfloat16":
            kept[name] = difference.to(torch.bfloat16)
        elif rank is None:
            kept |= _as_bytes(name, difference)
        else:
            kept |= _as_product(name, difference, rank)
    return kept


def restore(kept: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights in float32, of every name in the base or in what was kept.

    Raises:
        ModelError: If half of a pair is missing, or shapes do not fit.
    """
    weights = {name: tensor.float() for name, tensor in base.items()}
    for name in dict.fromkeys(_without_suffix(name) for name in kept):
        difference = _difference(name, kept)
        if name in weights:
            _require_shape(name, difference, weights[name])
            difference = weights[name] + difference
        weights[name] = difference
    return weights


def _as_bytes(name: str, difference: Tensor) -> dict[str, Tensor]:
    """Each row in steps of a 127th of its largest entry."""
    scale = difference.abs().amax(dim=1, keepdim=True) / LARGEST_STEP
    steps = torch.where(scale > 0, difference / scale, 0).round().to(torch.int8)
    return {name + STEPS: steps, name + SCALE: scale}


def _as_product(name: str, difference: Tensor, rank: int) -> dict[str, Tensor]:
    """The nearest product of two matrices of this rank, each with the root of the spectrum."""
    u, s, v = torch.linalg.svd(difference, full_matrices=False)
    root = s[:rank].sqrt()
    left, right = u[:, :rank] * root, root[:, None] * v[:rank]
    return {
        name + LEFT: left.to(torch.bfloat16).contiguous(),
        name + RIGHT: right.to(torch.bfloat16).contiguous(),
    }


def _difference(name: str, kept: Mapping[str, Tensor]) -> Tensor:
    try:
        if name + STEPS in kept:
            return kept[name + STEPS].float() * kept[name + SCALE].float()
        if name + LEFT in kept:
            return kept[name + LEFT].float() @ kept[name + RIGHT].float()
        return kept[name].float()
    except KeyError as missing:
        raise ModelError(f"The difference lacks {missing}, half of a pair.") from None


def _without_suffix(name: str) -> str:
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _rank(matrices: str) -> int | None:
    """Rank that is asked for; None: none is."""
    if matrices in ("bfloat16", "int8"):
        return None
    found = re.fullmatch(r"rank:([1-9]\d*)", matrices)
    if not found:
        raise ConfigError(
            f"Matrices cannot be kept as {matrices!r}; say int8, bfloat16, or rank:R such as "
            "rank:64."
        )
    return int(found[1])


def _require_shape(name: str, found: Tensor, wanted: Tensor) -> None:
    if found.shape != wanted.shape:
        raise ModelError(
            f"{name} has shape {tuple(found.shape)}, but its base has {tuple(wanted.shape)}; it is "
            "the difference from another model."
        )
