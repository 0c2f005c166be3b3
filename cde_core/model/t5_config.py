"""The shape of a T5: an encoder and, unless it is left out, a decoder.

    transformers' config.json ──▶ read_t5_config ──▶ T5Config ──▶ as_held, with_rotary ──▶ T5Config

T5 differs from the other backbones in more than settings: norms without a mean, scores that are not
divided by the root of the width, positions as a learned bias on scores. So it has a configuration
of its own. 2K-T5 is a T5 whose bias is replaced by rotary positions, stretched to 2,048 tokens.

NTK-aware stretching leaves the fastest wavelengths as they are and makes the slowest one longer by
the factor that texts become longer: with heads of w numbers, theta is multiplied by
factor^(w / (w - 2)). The paper says "NTK-scaling RoPE" and no more; theta is raised once for the
whole model and not with each text, so that a vector does not depend on how long others are.

Source: Raffel et al. (2020), https://arxiv.org/abs/1910.10683; version 1.1 by Shazeer (2020),
https://arxiv.org/abs/2002.05202; Coelho et al. (2024), section 3.1,
https://arxiv.org/abs/2404.04163; the formula by bloc97 (2023), "NTK-Aware Scaled RoPE".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cde_core.errors import ConfigError, ModelError
from cde_core.model.config_checks import require_at_least, require_choice

ACTIVATIONS: Mapping[str, Literal["relu", "geglu", "swiglu"]] = {
    "relu": "relu",
    "gated-gelu": "geglu",
    "gated-silu": "swiglu",
}
"""From what transformers calls the feed-forward part to what we do."""

TRAINED_LENGTH = 512
"""Tokens that the released T5s were trained on."""

THETA = 10_000.0
"""Base of the rotary wavelengths before they are stretched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Config:
    """The shape of one T5."""

    family: Literal["t5"] = "t5"
    """Tells it from the other backbones, where it is saved."""

    vocabulary: int
    """Rows of the word-embedding table, padding rows included."""

    hidden: int
    """Width of every row that travels through the layers."""

    layers: int
    """Layers of the encoder."""

    decoder_layers: int
    """Layers of the decoder; 0: there is none."""

    heads: int
    """Attention heads per layer."""

    head_width: int
    """Width of one head; heads times this need not be `hidden`."""

    intermediate: int
    """Width inside the feed-forward part; a gated one has two such halves."""

    activation: Literal["relu", "geglu", "swiglu"] = "relu"
    """Of the feed-forward part; the last two are gated."""

    position: Literal["relative", "rotary"] = "relative"
    """A learned bias per head and distance, or a rotation of queries and keys."""

    buckets: int = 32
    """Distances that the bias tells apart; far ones share a bucket."""

    farthest: int = 128
    """From this distance on, all share the last one."""

    theta: float = THETA
    """Base of the rotary wavelengths, as it serves `trained_length`."""

    trained_length: int = TRAINED_LENGTH
    """Tokens that `theta` serves."""

    reach: int = TRAINED_LENGTH
    """Tokens that rotary positions are stretched to."""

    norm_epsilon: float = 1e-6
    """Added to the mean square in every norm."""

    start: int = 0
    """Token that the decoder begins with."""

    own_output: bool = False
    """Whether a matrix of its own, and not the word embeddings, turns rows into words (1.1)."""

    scaled_output: bool = True
    """Whether rows are divided by the root of their width before that (1.0)."""

    def __post_init__(self) -> None:
        require_choice("activation", self.activation, ("relu", "geglu", "swiglu"))
        require_choice("position", self.position, ("relative", "rotary"))
        for name in ("vocabulary", "hidden", "layers", "heads", "head_width", "intermediate"):
            require_at_least(1, name, getattr(self, name))
        require_at_least(0, "decoder_layers", self.decoder_layers)
        require_at_least(1, "trained_length", self.trained_length)
        require_at_least(4, "buckets", self.buckets)
        if self.farthest <= self.buckets // 2:
            raise ConfigError(
                f"farthest is {self.farthest}; {self.buckets} buckets ask for more than "
                f"{self.buckets // 2}."
            )
        if self.position == "rotary" and (self.theta <= 0 or self.head_width % 2):
            raise ConfigError("Rotary positions need a positive theta and an even width per head.")
        if self.position == "rotary" and self.stretch > 1 and self.head_width == 2:
            raise ConfigError("Rotary positions of heads of width 2 cannot be stretched.")

    @property
    def stretch(self) -> float:
        """How many times longer texts may be than those that `theta` serves; at least 1."""
        return max(1.0, self.reach / self.trained_length)

    @property
    def stretched_theta(self) -> float:
        """Base of the rotary wavelengths that serves `reach`."""
        if self.stretch == 1:
            return self.theta
        width = self.head_width
        return float(self.theta * self.stretch ** (width / (width - 2)))


def with_rotary(config: T5Config, *, reach: int) -> T5Config:
    """The same T5 with rotary positions that reach so many tokens, or farther if they did."""
    reach = max(config.reach, reach)
    return dataclasses.replace(config, position="rotary", reach=reach)


def as_held(config: T5Config, tensors: Collection[str]) -> T5Config:
    """The same T5 without the parts of which a file has no tensors, by their published names."""
    decodes = any(name.startswith("decoder.block.") for name in tensors)
    return dataclasses.replace(
        config,
        decoder_layers=config.decoder_layers if decodes else 0,
        own_output=config.own_output and decodes and "lm_head.weight" in tensors,
    )


def read_t5_config(config: Mapping[str, Any]) -> T5Config:
    """Describe the T5 that a transformers `config.json` describes, with all of its parts.

    Raises:
        ModelError: If a setting is one that we do not reproduce.
    """
    activation = str(config.get("feed_forward_proj", "relu"))
    if activation not in ACTIVATIONS:
        raise ModelError(
            f"The backbone has feed_forward_proj = {activation!r}; supported are "
            f"{', '.join(ACTIVATIONS)}."
        )
    own = config.get("tie_word_embeddings") is False
    layers = config.get("num_layers", 6)
    start = config.get("decoder_start_token_id")
    return T5Config(
        vocabulary=config.get("vocab_size", 32128),
        hidden=config.get("d_model", 512),
        layers=layers,
        decoder_layers=config.get("num_decoder_layers") or layers,
        heads=config.get("num_heads", 8),
        head_width=config.get("d_kv", 64),
        intermediate=config.get("d_ff", 2048),
        activation=ACTIVATIONS[activation],
        buckets=config.get("relative_attention_num_buckets", 32),
        farthest=config.get("relative_attention_max_distance", 128),
        norm_epsilon=config.get("layer_norm_epsilon", 1e-6),
        start=(config.get("pad_token_id") or 0) if start is None else start,
        own_output=own,
        # transformers 5 always ties, and writes down what it took from how the file was before.
        scaled_output=config.get("scale_decoder_outputs", not own),
    )
