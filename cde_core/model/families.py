"""Read the configurations that three families of backbones publish.

    config.json of BERT, NomicBERT or ModernBERT ──▶ backbone_config ──▶ BackboneConfig

NomicBERT comes in two dialects: the authors' (`n_embd`, `rotary_emb_base`) and transformers'
(`hidden_size`, `rope_parameters`). What we cannot reproduce exactly is refused, never approximated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cde_core.errors import ModelError
from cde_core.model.config import BackboneConfig

NOMIC_BERT_2048 = BackboneConfig(
    family="nomic",
    vocabulary=30528,
    hidden=768,
    layers=12,
    heads=12,
    intermediate=3072,
    norm="post",
    position="rotary",
    activation="swiglu",
    biases=False,
    norm_biases=True,
    token_types=2,
    norm_epsilon=1e-12,
    theta=1000.0,
    max_positions=2048,
)

MODERNBERT_BASE = BackboneConfig(
    family="modernbert",
    vocabulary=50368,
    hidden=768,
    layers=22,
    heads=12,
    intermediate=1152,
    norm="pre",
    position="rotary",
    activation="geglu",
    biases=False,
    norm_biases=False,
    norm_epsilon=1e-5,
    theta=160_000.0,
    theta_in_window=10_000.0,
    window=64,
    global_every=3,
    max_positions=8192,
)

KNOWN_BACKBONES = {
    "nomic-ai/nomic-bert-2048": NOMIC_BERT_2048,
    "answerdotai/ModernBERT-base": MODERNBERT_BASE,
}
"""Backbones that published checkpoints name without describing them."""

Settings = Mapping[str, Any]


def backbone_config(config: Settings) -> BackboneConfig:
    """Describe the backbone that a transformers `config.json` describes.

    Raises:
        ModelError: If the family is not one of ours, or a setting is one we do not reproduce.
    """
    readers = {"bert": _bert, "nomic_bert": _nomic, "modernbert": _modernbert}
    model_type = str(config.get("model_type", ""))
    if model_type not in readers:
        raise ModelError(
            f"The model type is {model_type!r}; backbones can be {', '.join(readers)}, t5."
        )
    return readers[model_type](config)


def _bert(config: Settings) -> BackboneConfig:
    _require(config, "hidden_act", "gelu")
    _require(config, "position_embedding_type", "absolute")
    return BackboneConfig(
        family="bert",
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        norm="post",
        position="absolute",
        activation="gelu",
        biases=True,
        norm_biases=True,
        token_types=config.get("type_vocab_size", 2),
        norm_epsilon=config.get("layer_norm_eps", 1e-12),
        max_positions=config.get("max_position_embeddings", 512),
    )


def _nomic(config: Settings) -> BackboneConfig:
    for name, value in {
        "activation_function": "swiglu",
        "hidden_act": "silu",
        "prenorm": False,
        "parallel_block": False,
        "causal": False,
        "qkv_proj_bias": False,
        "mlp_fc1_bias": False,
        "mlp_fc2_bias": False,
        "use_rms_norm": False,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None,
    }.items():
        _require(config, name, value)
    hidden = _first(config, "hidden_size", "n_embd")
    theta = _first(_rope(config), "rope_theta", or_else=None) or config.get("rotary_emb_base")
    multiple = config.get("pad_vocab_size_multiple", 1)
    return BackboneConfig(
        family="nomic",
        vocabulary=-(-config["vocab_size"] // multiple) * multiple,
        hidden=hidden,
        layers=_first(config, "num_hidden_layers", "n_layer"),
        heads=_first(config, "num_attention_heads", "n_head"),
        intermediate=_first(config, "intermediate_size", "n_inner", or_else=4 * hidden),
        norm="post",
        position="rotary",
        activation="swiglu",
        biases=False,
        norm_biases=True,
        token_types=config.get("type_vocab_size", 2),
        norm_epsilon=_first(config, "layer_norm_eps", "layer_norm_epsilon", or_else=1e-12),
        theta=float(theta or 1000.0),
        max_positions=_first(config, "max_position_embeddings", "n_positions", or_else=2048),
    )


def _modernbert(config: Settings) -> BackboneConfig:
    for name in ("attention_bias", "mlp_bias", "norm_bias"):
        _require(config, name, False)
    _require(config, "hidden_activation", "gelu")
    rope = _rope(config)
    every = config.get("global_attn_every_n_layers") or _period(config.get("layer_types") or [])
    return BackboneConfig(
        family="modernbert",
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        norm="pre",
        position="rotary",
        activation="geglu",
        biases=False,
        norm_biases=False,
        norm_epsilon=config.get("norm_eps", 1e-5),
        theta=_theta(rope.get("full_attention"), config.get("global_rope_theta"), 160_000.0),
        theta_in_window=_theta(
            rope.get("sliding_attention"), config.get("local_rope_theta"), 10_000.0
        ),
        window=config.get("local_attention", 128) // 2,
        global_every=every,
        max_positions=config.get("max_position_embeddings", 8192),
    )


def _require(config: Settings, name: str, value: object) -> None:
    if config.get(name, value) != value:
        raise ModelError(
            f"The backbone has {name} = {config[name]!r}; only {value!r} is supported."
        )


def _first(config: Settings, *names: str, or_else: Any = ...) -> Any:
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if or_else is ...:
        raise ModelError(f"The backbone's config.json lacks {' or '.join(names)}.")
    return or_else


def _rope(config: Settings) -> Settings:
    rope = config.get("rope_parameters") or {}
    for part in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        _require(part, "rope_type", "default")
    return dict(rope)


def _theta(rope: Settings | None, older: float | None, default: float) -> float:
    return float((rope or {}).get("rope_theta") or older or default)


def _period(layer_types: list[str]) -> int:
    """Distance between layers that see everything, where their kinds are listed one by one."""
    full = [i for i, kind in enumerate(layer_types) if kind == "full_attention"]
    period = full[1] if len(full) > 1 else max(len(layer_types), 1) if layer_types else 3
    if layer_types and full != list(range(0, len(layer_types), period)):
        raise ModelError(f"Layers see everything at {full}, which is not every n-th from 0.")
    return period
