"""The same weights in another shape: fewer layers, other positions, fewer parts, other limits.

    TextEncoder ──▶ keep_layers, with_positions, without_what_is_not_pooled ──▶ TextEncoder
                                     └── with_backbone, with_config ──┘

What has no place in the new shape is left out, and nothing is made up: a shape that asks for more
weights than there are is refused.
"""

from __future__ import annotations

import dataclasses

from cde_core.errors import ConfigError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import reader_for
from cde_core.model.config import BackboneConfig, BiencoderConfig, ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.model.t5_config import T5Config, with_rotary


def keep_layers(encoder: TextEncoder, count: int) -> TextEncoder:
    """A biencoder with the first `count` layers of this one's backbone; 0: all.

    Raises:
        ConfigError: If it has fewer, or is no biencoder.
    """
    model = encoder.model
    if not isinstance(model, Biencoder):
        raise ConfigError(
            f"{encoder.name} is contextual itself, so it cannot be one of two stages."
        )
    backbone = model.config.backbone
    if count == 0 or count == backbone.layers:
        return encoder
    if count > backbone.layers:
        raise ConfigError(
            f"{encoder.name} has {backbone.layers} layers, fewer than the {count} asked for."
        )
    if isinstance(backbone, T5Config):
        fewer = min(count, backbone.decoder_layers)
        return with_backbone(
            encoder, dataclasses.replace(backbone, layers=count, decoder_layers=fewer)
        )
    return with_backbone(encoder, dataclasses.replace(backbone, layers=count))


def with_positions(encoder: TextEncoder, positions: str, *, reach: int) -> TextEncoder:
    """A biencoder with rotary positions, where they are asked for or it has them.

    Args:
        encoder: The biencoder.
        positions: rotary: in place of a T5's learned bias. Empty: as it has them.
        reach: Tokens that a T5's rotary positions are stretched to, if they reach less far.

    Raises:
        ConfigError: If they are asked of another backbone than a T5.
    """
    backbone = encoder.model.backbone.config
    if isinstance(backbone, T5Config):
        if "rotary" in (positions, backbone.position):
            return with_backbone(encoder, with_rotary(backbone, reach=reach))
        return encoder
    if positions:
        raise ConfigError(
            f"model.positions is {positions}, which is for a T5; {encoder.name} is none. Leave "
            "model.positions out."
        )
    return encoder


def without_what_is_not_pooled(encoder: TextEncoder, pooling: str) -> TextEncoder:
    """A T5 without its output words, and without its decoder unless that pools."""
    backbone = encoder.model.backbone.config
    if not isinstance(backbone, T5Config):
        return encoder
    layers = backbone.decoder_layers if pooling == "decoder" else 0
    return with_backbone(
        encoder, dataclasses.replace(backbone, decoder_layers=layers, own_output=False)
    )


def with_backbone(encoder: TextEncoder, backbone: BackboneConfig | T5Config) -> TextEncoder:
    """A biencoder whose backbone has this shape, with the weights that still have a place."""
    model = encoder.model
    assert isinstance(model, Biencoder)
    pooling = model.config.pooling
    if pooling == "decoder" and not getattr(backbone, "decoder_layers", 0):
        pooling = "mean"
    kept = Biencoder(dataclasses.replace(model.config, backbone=backbone, pooling=pooling))
    wanted = kept.state_dict()
    kept.load_state_dict({k: v for k, v in model.state_dict().items() if k in wanted})
    return TextEncoder(kept, encoder.reader, name=encoder.name)


def with_config(encoder: TextEncoder, config: BiencoderConfig | ContextualConfig) -> TextEncoder:
    """The same weights under another config, whose shapes are the same."""
    model = Biencoder(config) if isinstance(config, BiencoderConfig) else ContextualEncoder(config)
    model.load_state_dict(encoder.model.state_dict())
    return TextEncoder(model, reader_for(config, encoder.reader.tokenizer), name=encoder.name)
