"""The T5 that a run starts from: somebody's, or a new one of random weights.

    ModelConfig ──▶ backbone_for ──▶ starting_language_model ──▶ TextEncoder with its decoder

As a language model a T5 keeps all of its parts; as a text encoder (`starting_model`) only those
that its pooling needs.

Source: Coelho et al. (2024), section 3, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import dataclasses

import torch
from tokenizers import Tokenizer
from torch import Tensor

from cde_core.errors import ConfigError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.model.hub import folder_of
from cde_core.model.reshape import keep_layers, with_config, with_positions
from cde_core.model.sentinels import with_sentinels
from cde_core.model.t5 import T5, start_afresh
from cde_core.model.t5_config import T5Config
from cde_core.model.transformer import set_dropout
from cde_core.recipe import ModelConfig, ScratchConfig
from cde_core.tokens import load_tokenizer


def starting_language_model(settings: ModelConfig, *, seed: int) -> TextEncoder:
    """Build or load a T5 with all of its parts, on the CPU in float32.

    Args:
        settings: Of the recipe.
        seed: Of random weights.

    Raises:
        ConfigError: If the backbone is no T5, or has no decoder.
        ModelError: If it cannot be loaded.
    """
    encoder = backbone_for(settings, seed)
    backbone = encoder.model.backbone.config
    if not isinstance(backbone, T5Config) or not backbone.decoder_layers:
        raise ConfigError(
            f"{settings.backbone} is no T5 with a decoder, so it cannot learn to fill in spans; "
            "name one in model.backbone, or set model.scratch.hidden."
        )
    encoder = keep_layers(encoder, settings.layers)
    encoder = with_positions(encoder, settings.positions, reach=settings.max_length)
    assert isinstance(encoder.model, Biencoder)
    config = dataclasses.replace(
        encoder.model.config,
        max_length=settings.max_length,
        pooling=settings.pooling or encoder.model.config.pooling,
        prefixes=False,
    )
    encoder = with_config(encoder, config)
    set_dropout(encoder.model, settings.dropout)
    return encoder


def backbone_for(settings: ModelConfig, seed: int) -> TextEncoder:
    """The model that a recipe names, or a new T5 with its tokenizer.

    Raises:
        ModelError: If it cannot be loaded.
    """
    if not settings.scratch.hidden:
        return load(settings.backbone, device="cpu", cache=None)
    tokenizer = with_sentinels(load_tokenizer([folder_of(settings.backbone)]))
    encoder = new_t5(settings.scratch, tokenizer, seed=seed)
    if settings.scratch.words:
        known = load(settings.backbone, device="cpu", cache=None)
        _take_words(encoder.model.backbone.words.weight, known.model.backbone.words.weight)
    return encoder


@torch.no_grad()
def _take_words(words: Tensor, known: Tensor) -> None:
    """Overwrite word vectors (V, h) with known ones (v, d): their min(h, d) principal components.

    They get the size of T5's random ones, a mean square of 1; rows and columns beyond the known
    ones, such as sentinels, stay as they are.
    """
    centred = known.double() - known.double().mean(dim=0)
    _, axes = torch.linalg.eigh(centred.T @ centred)  # of rising variance
    rows, width = min(len(words), len(known)), min(words.shape[1], known.shape[1])
    kept = (centred @ axes.flip(1)[:, :width])[:rows]
    words[:rows, :width] = (kept / kept.square().mean().sqrt()).to(words)


def new_t5(size: ScratchConfig, tokenizer: Tokenizer, *, seed: int) -> TextEncoder:
    """A T5 of random weights that reads a tokenizer's tokens."""
    backbone = T5Config(
        vocabulary=tokenizer.get_vocab_size(),
        hidden=size.hidden,
        layers=size.layers,
        decoder_layers=size.layers,
        heads=size.heads,
        head_width=size.head_width,
        intermediate=size.intermediate,
        activation=size.activation,
    )
    config = BiencoderConfig(backbone=backbone)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Biencoder(config)
        assert isinstance(model.backbone, T5)
        start_afresh(model.backbone)
    return TextEncoder(model, reader_for(config, tokenizer), name="new T5")
