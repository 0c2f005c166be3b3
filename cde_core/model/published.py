"""Models as others publish them: sentence encoders, and the authors' two-stage models.

    config.json ──▶ biencoder_config  or  contextual_config ──▶ our config
    our config  ──▶ published_config  ──▶ config.json that the authors' code understands

The authors' config.json names its backbone without describing it and says nothing of the output
head. Two generations of their code exist: the newer one writes `pool_ignore_contextual_tokens` and
adds the pooled vector to what the head gives, the older does neither.

Source: github.com/jxmorris12/cde, and the repositories of cde-small-v1 and cde-small-v2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cde_core.errors import ModelError
from cde_core.model.config import (
    BackboneConfig,
    BiencoderConfig,
    ContextualConfig,
    from_dict,
    to_dict,
)
from cde_core.model.families import KNOWN_BACKBONES, backbone_config
from cde_core.model.hub import folder_of, read_json
from cde_core.model.pooling import OF_ROWS
from cde_core.model.t5_config import T5Config, read_t5_config

TOKENIZERS = {"nomic-ai/nomic-bert-2048": "google-bert/bert-base-uncased"}
"""Backbones that use the tokenizer of another."""

_OLDER_POOLINGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
"""What sentence-transformers called them before it gave them names, each a switch of its own."""


def biencoder_config(config: Mapping[str, Any], folder: Path, name: str) -> BiencoderConfig:
    """Describe a transformers or sentence-transformers folder.

    Raises:
        ModelError: If it pools, or goes on after pooling, in a way that we do not reproduce.
    """
    backbone: BackboneConfig | T5Config
    longest = 8192
    if config.get("model_type") == "t5":
        backbone = read_t5_config(config)
    else:
        backbone = backbone_config(config)
        if backbone.position == "absolute":
            longest = backbone.max_positions
    return BiencoderConfig(
        backbone=backbone,
        pooling=_pooling(folder),
        max_length=min(_max_length(folder), longest),
        backbone_name=name,
    )


def contextual_config(config: Mapping[str, Any], *, colon_id: int | None) -> ContextualConfig:
    """Describe a two-stage model that the authors' code saved, or that `published_config` did.

    Raises:
        ModelError: If its backbone is unknown and cannot be found.
    """
    if "cde_core" in config:
        return from_dict(ContextualConfig, config["cde_core"])
    name = str(config.get("embedder", ""))
    known = KNOWN_BACKBONES.get(name)
    backbone = known or backbone_config(read_json(folder_of(name) / "config.json"))
    return ContextualConfig(
        first=_limited(
            backbone, config.get("limit_layers_first_stage") or config.get("limit_layers")
        ),
        second=_limited(backbone, config.get("limit_layers")),
        context_documents=config["transductive_corpus_size"],
        tokens_per_document=config.get("transductive_tokens_per_document", 1),
        spans_of="padded",
        # ModernBERT's own positions were left as they are, whatever the setting says.
        rotary_on_context=backbone.family == "modernbert"
        or not config.get("disable_transductive_rotary_embedding", True),
        residual_head="pool_ignore_contextual_tokens" in config,
        pool_instruction=not config.get("pool_ignore_instruction_tokens", False),
        pool_context=not config.get("pool_ignore_contextual_tokens", True),
        colon_id=colon_id,
        null_context=bool(config.get("transductive_sequence_dropout_prob")),
        max_length=config.get("max_seq_length", 512),
        logit_scale=config.get("logit_scale", 50.0),
        backbone_name=name,
    )


def published_config(config: ContextualConfig) -> dict[str, Any]:
    """The authors' config.json for one of our models, with ours inside.

    Raises:
        ModelError: If the model does what the published architecture cannot.
    """
    if config.context_attention != "joint":
        raise ModelError("Only joint attention has a published format; save in our own.")
    if config.residual_first_head:
        raise ModelError(
            "The published format has no residual head in the first stage; save in our own."
        )
    if config.tokens_per_document > 1 and config.spans_of != "padded":
        raise ModelError(
            "The published format cuts padded documents into spans, and this model cuts their "
            "text; save in our own."
        )
    published = {
        "architecture": "transductive",
        "embedder": config.backbone_name,
        "disable_dropout": True,
        "disable_transductive_rotary_embedding": not config.rotary_on_context,
        "limit_layers": config.second.layers,
        "limit_layers_first_stage": config.first.layers,
        "logit_scale": config.logit_scale,
        "max_seq_length": config.max_length,
        "transductive_corpus_size": config.context_documents,
        "transductive_sequence_dropout_prob": 0.005 if config.null_context else 0.0,
        "transductive_tie_token_embeddings": False,
        "transductive_tokens_per_document": config.tokens_per_document,
        "cde_core": to_dict(config),
    }
    if config.residual_head:
        published["pool_ignore_contextual_tokens"] = not config.pool_context
        published["pool_ignore_instruction_tokens"] = not config.pool_instruction
    return published


def _limited(backbone: BackboneConfig, layers: int | None) -> BackboneConfig:
    return dataclasses.replace(backbone, layers=min(layers or backbone.layers, backbone.layers))


def _max_length(folder: Path) -> int:
    sentence, tokenizer = folder / "sentence_bert_config.json", folder / "tokenizer_config.json"
    if sentence.is_file() and (length := read_json(sentence).get("max_seq_length")):
        return int(length)
    # transformers writes 10^30 for "no limit".
    length = read_json(tokenizer).get("model_max_length") if tokenizer.is_file() else None
    return int(length) if length and length < 1e6 else 512


def _pooling(folder: Path) -> Any:
    modules = folder / "modules.json"
    if modules.is_file():
        for kind in ("Dense", "LayerNorm", "CNN", "LSTM", "WeightedLayerPooling"):
            if f"models.{kind}" in modules.read_text(encoding="utf-8"):
                raise ModelError(
                    f"{folder} goes on with a {kind} after pooling, which we do not do."
                )
    file = folder / "1_Pooling" / "config.json"
    if not file.is_file():
        return "mean"
    settings = read_json(file)
    modes = [
        mode for mode, on in settings.items() if mode.startswith("pooling_mode_") and on is True
    ]
    found = settings.get("pooling_mode") or " + ".join(modes)
    pooling = _OLDER_POOLINGS.get(found, found)
    if pooling not in OF_ROWS:
        raise ModelError(f"{folder} pools by {found}; we do {', '.join(OF_ROWS)}.")
    return pooling
