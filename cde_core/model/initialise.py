"""Make an untrained two-stage model out of pretrained encoders.

    encoder (second stage), encoder (first stage) ──▶ contextual_from ──▶ TextEncoder to be trained

With prefix attention, a strongly negative context bias and residual heads whose last maps are zero,
training starts near the sentence encoder that the backbone already is: the output head adds
nothing, the context vectors are the first encoder's own, and the context whispers. Otherwise the
new parts start as PyTorch starts them.

How low the bias starts is a trade. Where scores are equal, 512 context rows at a bias of b weigh as
much as 512·e^b text tokens. On NFCorpus, a 6-layer MiniLM then starts at these cosines to its own
embeddings: 0.89 (median; worst 0.68) at -2, 0.994 (0.936) at -4, 0.9998 (0.996) at -6, 1.0000
(0.9998) at -8. But the gradients of the context shrink with e^b too. -6 is the highest whole number
at which no text moves noticeably.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cde_core.errors import ModelError
from cde_core.model.checkpoint import fill, reader_for
from cde_core.model.config import BackboneConfig, ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.model.t5_config import T5Config


def contextual_from(
    second: TextEncoder, first: TextEncoder, config: ContextualConfig, *, seed: int = 0
) -> TextEncoder:
    """A two-stage model with the backbones of two encoders.

    Args:
        second: Gives the second stage its backbone, and the model its tokenizer.
        first: Gives the first stage its backbone; may be the same encoder.
        config: The model's; its backbones must be those of the encoders.
        seed: Of the parts that are new.

    Raises:
        ModelError: If the two read different tokens.
    """
    if first.reader.tokenizer.get_vocab() != second.reader.tokenizer.get_vocab():
        raise ModelError(
            f"{first.name} and {second.name} have different vocabularies; both stages read the "
            "same tokens, so take backbones of one family."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ContextualEncoder(config)
    if config.residual_head:
        _silence(model.output_projection)
    if config.residual_first_head:
        _silence(model.first_stage.head)
    weights = model.state_dict()
    weights |= _under("first_stage.backbone.", first)
    weights |= _under("backbone.", second)
    fill(model, weights, where=f"{second.name} over {first.name}")
    return TextEncoder(model, reader_for(config, second.reader.tokenizer), name=second.name)


def stage_config(encoder: TextEncoder) -> BackboneConfig:
    """The shape of an encoder's backbone, which is to be a stage of two.

    Raises:
        ModelError: If it is a T5, whose layers take no rows in front of a text.
    """
    config = encoder.model.backbone.config
    if isinstance(config, T5Config):
        raise ModelError(
            f"{encoder.name} is a T5, which cannot be a stage of a contextual model; train it as a "
            "biencoder (model.kind), or take another backbone."
        )
    return config


def _silence(head: torch.nn.Module) -> None:
    """Let a head that is added to something add nothing at first."""
    *_, last = head.children()
    for parameter in last.parameters():
        torch.nn.init.zeros_(parameter)


def _under(prefix: str, encoder: TextEncoder) -> dict[str, Tensor]:
    """Copies of an encoder's backbone weights, so that two stages never share one."""
    weights = encoder.model.backbone.state_dict()
    return {prefix + name: tensor.detach().clone() for name, tensor in weights.items()}
