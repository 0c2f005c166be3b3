"""What T5's weights are called in published files, and what they are called here.

    published tensors ──▶ import_t5 ──▶ our tensors

Files hold the word embeddings up to three times (shared, and once per stack), and those of the
first version a bias that its own code never used. Rotary positions take the place of the biases, so
a checkpoint of ours with rotary positions has none.

Source: the state dictionaries of transformers' T5EncoderModel, T5Model and
T5ForConditionalGeneration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from cde_core.errors import ModelError
from cde_core.model.t5_config import T5Config
from cde_core.model.weight_names import require_same_names

_COPIES = re.compile(r"^(encoder|decoder)\.embed_tokens\.weight$")
_NEVER_USED = re.compile(r"EncDecAttention\.relative_attention_bias\.weight$")
_WORDS = ("shared.weight", "encoder.embed_tokens.weight")
_ATTENTION = {"query": ("q",), "key_value": ("k", "v"), "out": ("o",)}
_FEED_FORWARD = "DenseReluDense"


def import_t5(
    tensors: Mapping[str, Tensor], config: T5Config, ours: Iterable[str], *, where: str
) -> dict[str, Tensor]:
    """Give published tensors our names.

    Args:
        tensors: As published; heads for other tasks are errors.
        config: The T5 they belong to.
        ours: Names of the parameters that our T5 has.
        where: The file, for messages.

    Raises:
        ModelError: If a tensor is missing or unexpected.
    """
    words = next((tensors[name] for name in _WORDS if name in tensors), None)
    if words is None:
        raise ModelError(f"{where} lacks {_WORDS[0]}, the word embeddings.")
    published = {
        name: tensor
        for name, tensor in tensors.items()
        if not (_COPIES.search(name) or _NEVER_USED.search(name))
        and (name != "lm_head.weight" or config.own_output)
    }
    published["shared.weight"] = words
    names = {name: _published(name, config) for name in ours}
    wanted = [part for parts in names.values() for part in parts]
    require_same_names(published, wanted, where=where)
    return {name: torch.cat([published[part] for part in parts]) for name, parts in names.items()}


def _published(name: str, config: T5Config) -> tuple[str, ...]:
    """The published parts of one of our parameters, stacked along the first dimension."""
    whole = {"words.weight": "shared.weight", "output.weight": "lm_head.weight"}
    if name in whole:
        return (whole[name],)
    stack = "decoder" if name.startswith("decoder.") else "encoder"
    inner = name.removeprefix("decoder.")
    if inner == "final_norm.weight":
        return (f"{stack}.final_layer_norm.weight",)
    if inner == "relative_bias.weight":
        return (f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",)
    _, number, part, *below = inner.split(".")
    before = f"{stack}.block.{number}.layer"
    place = {"attention": 0, "across": 1, "feed_forward": 2 if stack == "decoder" else 1}
    kind = part.removesuffix("_norm")
    if part.endswith("_norm"):
        return (f"{before}.{place[kind]}.layer_norm.weight",)
    if kind == "feed_forward":
        gated = ("wi_0", "wi_1") if config.activation != "relu" else ("wi",)
        parts = gated if below[0] == "up" else ("wo",)
        return tuple(f"{before}.{place[kind]}.{_FEED_FORWARD}.{p}.weight" for p in parts)
    module = "SelfAttention" if kind == "attention" else "EncDecAttention"
    return tuple(f"{before}.{place[kind]}.{module}.{p}.weight" for p in _ATTENTION[below[0]])
