"""Everything that decides a model's shape: frozen, checked, and saved as JSON that people can read.

    transformers' config.json ──▶ BackboneConfig ──▶ BiencoderConfig ──▶ ContextualConfig
                                 or T5Config ───────────▲

A backbone is described by what it does (where it normalises, how it knows positions), so that one
transformer serves three families of weights. `family` is kept because it names those weights. T5 is
another transformer, with a configuration of its own, and serves encoders without context.

Source: the published configurations of BERT, nomic-bert-2048, ModernBERT-base and cde-small-v1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from cde_core.errors import ConfigError, did_you_mean
from cde_core.model.config_checks import require_at_least, require_choice
from cde_core.model.t5_config import T5Config

Family = Literal["bert", "nomic", "modernbert"]
FAMILIES = ("bert", "nomic", "modernbert")

Pooling = Literal["mean", "cls", "max", "lasttoken", "weightedmean", "decoder"]
"""mean: of all tokens; cls: the first; max: the largest of every number; lasttoken: the last one;
weightedmean: mean with weights 1, 2, 3, …; decoder: the first row of T5's decoder."""

POOLINGS: tuple[str, ...] = get_args(Pooling)


@dataclass(frozen=True, kw_only=True, slots=True)
class BackboneConfig:
    """The shape of one transformer encoder."""

    family: Family
    """Which published weights fit; decides only the names in their files."""

    vocabulary: int
    """Rows of the word-embedding table, padding rows included."""

    hidden: int
    """Width of every row that travels through the layers."""

    layers: int
    """Number of layers."""

    heads: int
    """Attention heads per layer; divides `hidden`."""

    intermediate: int
    """Width inside the feed-forward part; a gated one has two such halves."""

    norm: Literal["pre", "post"]
    """Whether a layer normalises what goes in (and the stack its end) or what comes out."""

    position: Literal["absolute", "rotary"]
    """A learned vector per position, or a rotation of queries and keys."""

    activation: Literal["gelu", "swiglu", "geglu"]
    """Of the feed-forward part; the last two are gated."""

    biases: bool
    """Whether the linear maps have biases."""

    norm_biases: bool
    """Whether the norms have biases."""

    token_types: int = 0
    """Rows of the token-type table; every text token has type 0."""

    norm_epsilon: float = 1e-12
    """Added to the variance in every norm."""

    theta: float = 0.0
    """Base of the rotary wavelengths; 0 where positions are absolute."""

    theta_in_window: float = 0.0
    """The same for layers that see only a window."""

    window: int = 0
    """How far to either side such a layer sees; 0: every layer sees everything."""

    global_every: int = 1
    """Layers 0, n, 2n, … see everything, the others their window."""

    max_positions: int = 512
    """Longest text."""

    def __post_init__(self) -> None:
        require_choice("family", self.family, FAMILIES)
        require_choice("norm", self.norm, ("pre", "post"))
        require_choice("position", self.position, ("absolute", "rotary"))
        require_choice("activation", self.activation, ("gelu", "swiglu", "geglu"))
        for name in ("vocabulary", "hidden", "layers", "heads", "intermediate", "max_positions"):
            require_at_least(1, name, getattr(self, name))
        if self.hidden % self.heads:
            raise ConfigError(f"hidden is {self.hidden}, which {self.heads} heads cannot share.")
        if self.position == "rotary" and (self.theta <= 0 or self.hidden // self.heads % 2):
            raise ConfigError("Rotary positions need a positive theta and an even width per head.")

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    def sees_everything(self, layer: int) -> bool:
        """Whether `layer` attends beyond a window."""
        return not self.window or layer % self.global_every == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BiencoderConfig:
    """A backbone that gives one vector per text, without context."""

    backbone: BackboneConfig | T5Config
    """The transformer."""

    head: Literal["none", "mlp", "residual"] = "none"
    """What follows pooling: nothing, or Linear → GELU → Linear (in a first stage); residual: that,
    added to what was pooled."""

    pooling: Pooling = "mean"
    """Which rows make the vector."""

    max_length: int = 512
    """Tokens read of a text, special tokens included."""

    characters_per_token: int = 0
    """A text is cut to this many characters per token of `max_length`; 0: never."""

    prefixes: bool = False
    """Whether texts carry the prefix of their purpose."""

    logit_scale: float = 50.0
    """What cosine similarities were multiplied by in training: 1 / temperature."""

    backbone_name: str = ""
    """Where the backbone's weights and tokenizer came from."""

    def __post_init__(self) -> None:
        require_choice("head", self.head, ("none", "mlp", "residual"))
        require_choice("pooling", self.pooling, POOLINGS)
        if self.pooling == "decoder" and not getattr(self.backbone, "decoder_layers", 0):
            raise ConfigError(
                "pooling is decoder, but the backbone has none; take a T5 with its decoder, or "
                "another pooling, such as mean."
            )
        _require_length_fits(self.max_length, self.backbone)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextualConfig:
    """A first stage that reads a corpus, and a second stage that embeds texts in its light."""

    first: BackboneConfig
    """Transformer of the first stage."""

    second: BackboneConfig
    """Transformer of the second stage; as wide as the first, since no projection stands between."""

    context_documents: int = 512
    """Documents of the corpus that the model reads first (J)."""

    tokens_per_document: int = 1
    """First-stage vectors per document (T)."""

    spans_of: Literal["text", "padded"] = "text"
    """What is cut into T spans: a document's own tokens; or, as published, its tokens and the
    padding up to the longest document of the context."""

    soft_prompts: int = 8
    """Learned rows between context and text."""

    context_attention: Literal["joint", "prefix"] = "joint"
    """joint: context and text see each other (as published). prefix: context sees only itself, so
    its keys and values are computed once per corpus."""

    rotary_on_context: bool = False
    """Whether rotary positions tell context vectors apart; if not, their order means nothing."""

    residual_first_head: bool = False
    """Whether the pooled vector is added to what the first stage's head makes of it."""

    residual_head: bool = False
    """Whether the pooled vector is added to what the output head makes of it."""

    pool_instruction: bool = True
    """Whether the tokens up to the first colon (the prefix) count in the mean."""

    colon_id: int | None = None
    """Token of ":"; needed where `pool_instruction` is false."""

    pool_context: bool = False
    """Whether context rows count in the mean (a known mistake; joint attention only)."""

    null_context: bool = False
    """Whether a learned vector stands in for absent context."""

    context_bias_init: float | None = None
    """First value of a learned bias, per layer and head, on attention from text to context and soft
    prompts (prefix attention only); None: no bias."""

    max_length: int = 512
    """Tokens read of a text, special tokens included."""

    characters_per_token: int = 4
    """A text is cut to this many characters per token of `max_length`; 0: never."""

    prefixes: bool = True
    """Whether texts carry the prefix of their purpose."""

    logit_scale: float = 50.0
    """What cosine similarities were multiplied by in training: 1 / temperature."""

    backbone_name: str = ""
    """Where the second stage's first weights and the tokenizer came from."""

    def __post_init__(self) -> None:
        require_choice("context_attention", self.context_attention, ("joint", "prefix"))
        require_choice("spans_of", self.spans_of, ("text", "padded"))
        for name in ("context_documents", "tokens_per_document", "soft_prompts"):
            require_at_least(1, name, getattr(self, name))
        _require_length_fits(self.max_length, self.second)
        _require_length_fits(self.max_length, self.first, name="first stage's backbone")
        if self.first.hidden != self.second.hidden:
            raise ConfigError(
                f"The first stage is {self.first.hidden} wide and the second {self.second.hidden}; "
                "they must be equal, since no projection stands between them."
            )
        if not self.pool_instruction and self.colon_id is None:
            raise ConfigError('pool_instruction is false, which needs colon_id, the token of ":".')
        if self.context_attention == "joint" and self.context_bias_init is not None:
            raise ConfigError("context_bias_init works with context_attention 'prefix' only.")
        if self.context_attention == "prefix" and self.pool_context:
            raise ConfigError("pool_context works with context_attention 'joint' only.")

    @property
    def context_rows(self) -> int:
        """Context vectors that a full context has: J·T."""
        return self.context_documents * self.tokens_per_document


Config = TypeVar("Config", BackboneConfig, T5Config, BiencoderConfig, ContextualConfig)


def to_dict(
    config: BackboneConfig | T5Config | BiencoderConfig | ContextualConfig,
) -> dict[str, Any]:
    """Turn a config into nested dictionaries that JSON can hold."""
    return dataclasses.asdict(config)


def from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Build a config from what `to_dict` gave.

    Raises:
        ConfigError: If a key is unknown (the message offers the nearest) or missing.
    """
    known = {field.name: field for field in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            raise ConfigError(f"{kind.__name__} has no {name!r}.{did_you_mean(name, known)}")
    missing = [n for n, f in known.items() if f.default is dataclasses.MISSING and n not in values]
    if missing:
        raise ConfigError(f"{kind.__name__} lacks {', '.join(missing)}.")
    nested = {"backbone", "first", "second"}
    built: dict[str, Any] = {
        name: _backbone_from(value) if name in nested else value for name, value in values.items()
    }
    return kind(**built)


def _backbone_from(values: Mapping[str, Any]) -> BackboneConfig | T5Config:
    if values.get("family") == "t5":
        return from_dict(T5Config, values)
    return from_dict(BackboneConfig, values)


def _require_length_fits(
    max_length: int, backbone: BackboneConfig | T5Config, *, name: str = "backbone"
) -> None:
    require_at_least(1, "max_length", max_length)
    if isinstance(backbone, T5Config):
        return
    if backbone.position == "absolute" and max_length > backbone.max_positions:
        raise ConfigError(
            f"max_length is {max_length}, but the {name} knows only {backbone.max_positions} "
            f"positions; the most that works is {backbone.max_positions}."
        )
