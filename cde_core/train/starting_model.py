"""The model that a run starts from, as its recipe describes it.

    ModelConfig ──▶ load backbones ──▶ keep some layers ──▶ biencoder, or two stages ──▶ TextEncoder
                └─▶ a T5 of random weights ─────────────────▲

A backbone is a sentence encoder or a plain language model; a checkpoint of ours is taken as it is,
so a second phase of training starts where the first ended. Of a T5, a text encoder keeps what its
pooling needs: a decoder that nothing reaches would only be pulled towards zero.
"""

from __future__ import annotations

import dataclasses

from cde_core.errors import ConfigError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load
from cde_core.model.config import BiencoderConfig, ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.model.initialise import contextual_from, stage_config
from cde_core.model.reshape import (
    keep_layers,
    with_config,
    with_positions,
    without_what_is_not_pooled,
)
from cde_core.model.transformer import set_dropout
from cde_core.recipe import ModelConfig
from cde_core.recipe_values import shown
from cde_core.tokens import TextReader
from cde_core.train.starting_t5 import backbone_for

SHAPE = {
    "attention": "context_attention",
    "tokens_per_document": "tokens_per_document",
    "soft_prompts": "soft_prompts",
    "context_bias": "context_bias_init",
    "residual_first_head": "residual_first_head",
    "residual_head": "residual_head",
    "pool_instruction": "pool_instruction",
    "null_context": "null_context",
    "rotary_on_context": "rotary_on_context",
    "prefixes": "prefixes",
}
"""What a contextual model keeps of its making: fields of the recipe, and of the model's config."""


def starting_model(settings: ModelConfig, *, temperature: float, seed: int) -> TextEncoder:
    """Build or load the model, on the CPU in float32.

    Args:
        settings: Of the recipe.
        temperature: Of the loss; kept in the model's config as the logit scale.
        seed: Of the parts that are new.

    Raises:
        ConfigError: If the backbone cannot be what the recipe asks for.
        ModelError: If it cannot be loaded.
    """
    second = backbone_for(settings, seed)
    if settings.kind == "biencoder":
        encoder = _biencoder(second, settings, temperature)
    elif isinstance(second.model, ContextualEncoder):
        encoder = _continued(second, second.model, settings, temperature)
    else:
        first = (
            load(settings.first_stage, device="cpu", cache=None) if settings.first_stage else second
        )
        encoder = _two_stages(second, first, settings, temperature, seed)
    set_dropout(encoder.model, settings.dropout)
    return encoder


def as_learner(encoder: TextEncoder, settings: ModelConfig) -> TextEncoder:
    """The same model, reading as much of a text as it does while training."""
    reader = encoder.reader
    if not settings.train_length or settings.train_length >= reader.max_length:
        return encoder
    per_token = (reader.characters or 0) // reader.max_length
    shorter = TextReader(
        reader.tokenizer, max_length=settings.train_length, characters_per_token=per_token
    )
    return TextEncoder(encoder.model, shorter, name=encoder.name)


def _biencoder(encoder: TextEncoder, settings: ModelConfig, temperature: float) -> TextEncoder:
    if not isinstance(encoder.model, Biencoder):
        raise ConfigError(
            f"model.kind is biencoder, but {settings.backbone} is a contextual model; name a "
            "backbone without context, or set model.kind to contextual."
        )
    encoder = keep_layers(encoder, settings.layers)
    encoder = with_positions(encoder, settings.positions, reach=settings.max_length)
    assert isinstance(encoder.model.config, BiencoderConfig)
    pooling = settings.pooling or encoder.model.config.pooling
    encoder = without_what_is_not_pooled(encoder, pooling)
    assert isinstance(encoder.model.config, BiencoderConfig)
    config = dataclasses.replace(
        encoder.model.config,
        pooling=pooling,
        max_length=settings.max_length,
        prefixes=settings.prefixes,
        logit_scale=1 / temperature,
    )
    return with_config(encoder, config)


def _continued(
    encoder: TextEncoder, model: ContextualEncoder, settings: ModelConfig, temperature: float
) -> TextEncoder:
    """A trained two-stage model; its shape stays, the limits are the recipe's."""
    if settings.layers or settings.first_layers or settings.first_stage:
        raise ConfigError(
            f"{settings.backbone} is a contextual model already, whose stages stay whole; leave "
            "model.layers and model.first_layers at 0, and model.first_stage empty."
        )
    _refuse_another_shape(model.config, settings)
    encoder = with_positions(encoder, settings.positions, reach=settings.max_length)
    if (settings.sequence_dropout or settings.whole_context_dropout) and (
        not model.config.null_context
    ):
        raise ConfigError(
            f"{settings.backbone} has no null vector that dropped context could become; set "
            "model.sequence_dropout and model.whole_context_dropout to 0."
        )
    config = dataclasses.replace(
        model.config,
        max_length=settings.max_length,
        characters_per_token=settings.characters_per_token,
        context_documents=settings.context_documents,
        logit_scale=1 / temperature,
    )
    return with_config(encoder, config)


def _refuse_another_shape(config: ContextualConfig, settings: ModelConfig) -> None:
    """Settings that would change nothing; one that is as by default may not have been set at all.

    Raises:
        ConfigError: If one is neither as by default nor as the model has it.
    """
    default = ModelConfig()
    for name, name_there in SHAPE.items():
        asked, there = getattr(settings, name), getattr(config, name_there)
        if asked not in (there, getattr(default, name)) and there is not None:  # it has no bias
            raise ConfigError(
                f"model.{name} is {shown(asked)}, but {settings.backbone} is a contextual model "
                f"already, which was made with {shown(there)} and stays so; set it to that."
            )


def _two_stages(
    second: TextEncoder,
    first: TextEncoder,
    settings: ModelConfig,
    temperature: float,
    seed: int,
) -> TextEncoder:
    second = keep_layers(second, settings.layers)
    second = with_positions(second, settings.positions, reach=settings.max_length)
    first = keep_layers(first, settings.first_layers or settings.layers)
    prefix = settings.attention == "prefix"
    config = ContextualConfig(
        first=stage_config(first),
        second=stage_config(second),
        context_documents=settings.context_documents,
        tokens_per_document=settings.tokens_per_document,
        soft_prompts=settings.soft_prompts,
        context_attention=settings.attention,
        context_bias_init=settings.context_bias if prefix else None,
        residual_first_head=settings.residual_first_head,
        residual_head=settings.residual_head,
        pool_instruction=settings.pool_instruction,
        colon_id=second.reader.colon_id,
        null_context=settings.null_context,
        rotary_on_context=settings.rotary_on_context,
        prefixes=settings.prefixes,
        max_length=settings.max_length,
        characters_per_token=settings.characters_per_token,
        logit_scale=1 / temperature,
        backbone_name=settings.backbone,
    )
    return contextual_from(second, first, config, seed=seed)
