"""Tell one first stage from another, so that no context is ever taken for another model's.

    weights ──▶ digest_of_weights ┐
                                  ├──▶ ContextKey
    config, tokenizer ──▶ digest_of_reading ┘

Digests are short because they are compared among the few models of one machine, not among all.
"""

from __future__ import annotations

import hashlib
import json

import torch
from torch import nn

from cde_core.model.config import ContextualConfig, to_dict
from cde_core.tokens import TextReader

WeightsState = tuple[tuple[int, int], ...]
"""Where every weight lies and how often it was written to."""


def weights_state(module: nn.Module) -> WeightsState:
    """What changes when a weight does, at no cost: so that training in place is noticed."""
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in module.parameters())


def digest_of_weights(module: nn.Module) -> str:
    """Digest of all weights as bfloat16, so that precision does not change it."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.to(torch.bfloat16).view(torch.int16).cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def digest_of_reading(config: ContextualConfig, reader: TextReader) -> str:
    """Digest of what, besides weights, decides how a document is read."""
    limits = [reader.max_length, reader.characters]
    everything = [to_dict(config.first), config.spans_of, limits, reader.tokenizer.to_str()]
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()[:16]
