"""`model`: what is trained, and what it starts from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cde_core.errors import ConfigError
from cde_core.settings.bounds import STRICT, at_least, probability


@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchConfig:
    """A T5 of random weights, in place of the backbone's own."""

    __pydantic_config__ = STRICT

    hidden: int = 0
    """Width of its rows; 0: there is none, and the backbone's weights are taken."""

    layers: int = 4
    """Layers of its encoder, and of its decoder."""

    heads: int = 4
    """Attention heads per layer."""

    head_width: int = 32
    """Width of one head."""

    intermediate: int = 512
    """Width inside the feed-forward part."""

    activation: Literal["relu", "geglu", "swiglu"] = "geglu"
    """Of the feed-forward part; the last two are gated, as in T5 1.1."""

    words: bool = False
    """Whether it begins with the backbone's word vectors (their first principal components, where
    they are wider), so that a short training need not find out which words are alike."""

    def __post_init__(self) -> None:
        at_least("model.scratch.hidden", self.hidden, 0)
        for name in ("layers", "heads", "head_width", "intermediate"):
            at_least(f"model.scratch.{name}", getattr(self, name), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """What is trained, and from which weights it starts."""

    __pydantic_config__ = STRICT

    kind: Literal["biencoder", "contextual"] = "contextual"
    """One encoder, or two stages of which the first reads context. A biencoder ignores every field
    that is about the first stage or context."""

    backbone: str = "minilm"
    """Where weights come from (of the second stage): a folder, a hub name, or minilm."""

    first_stage: str = ""
    """The same for the first stage; empty: the same backbone, with weights of its own."""

    scratch: ScratchConfig = field(default_factory=ScratchConfig)
    """A T5 of random weights instead, which reads the backbone's tokens."""

    pooling: Literal["", "mean", "cls", "max", "lasttoken", "weightedmean", "decoder"] = ""
    """What makes a biencoder's vector out of its rows; decoder: the first row of T5's decoder.
    Empty: as the backbone does."""

    positions: Literal["", "rotary"] = ""
    """rotary: a T5's learned bias gives way to rotary positions, which are stretched to max_length
    (NTK-aware). Empty: as the backbone has them."""

    layers: int = 0
    """Layers kept of the backbone, from the bottom; 0: all."""

    first_layers: int = 0
    """The same for the first stage; 0: as many as of the second."""

    max_length: int = 64
    """Tokens that the model reads of a text, special tokens included."""

    train_length: int = 0
    """Tokens read of a text while training; fewer are faster, and what is learnt from them serves
    longer texts too. 0: as many as max_length."""

    characters_per_token: int = 4
    """A two-stage model reads so many characters of a text per token of its limit and no more, as
    published ones do; 0: texts are cut by tokens alone."""

    attention: Literal["prefix", "joint"] = "prefix"
    """prefix: context sees only itself, so it is computed once per corpus; joint: as published."""

    context_documents: int = 64
    """Documents that the model reads first (J), drawn from the batch."""

    tokens_per_document: int = 1
    """First-stage vectors per document (T)."""

    soft_prompts: int = 8
    """Learned rows between context and text."""

    context_bias: float = -4.0
    """First value of the bias on attention to the context (prefix attention only)."""

    residual_first_head: bool = True
    """Add the pooled vector to what the first stage's head makes of it."""

    residual_head: bool = True
    """Add the pooled vector to the output head, which then starts at zero."""

    pool_instruction: bool = True
    """Let the prefix's tokens count in the mean."""

    null_context: bool = True
    """Learn a vector that stands in for absent context."""

    rotary_on_context: bool = False
    """Let rotary positions tell context vectors apart."""

    prefixes: bool = True
    """Put the prefix of its purpose before every text."""

    sequence_dropout: float = 0.005
    """Probability that a context vector is replaced by the null vector; needs null_context."""

    whole_context_dropout: float = 0.0
    """Probability that a batch's whole context is replaced by it; needs null_context."""

    dropout: float = 0.0
    """Dropout inside the transformers, while training."""

    freeze: tuple[str, ...] = ()
    """Parameters that stay as they are, by the beginning of their names, such as
    first_stage.backbone."""

    def __post_init__(self) -> None:
        for name in ("layers", "first_layers"):
            at_least(f"model.{name}", getattr(self, name), 0)
        for name in ("context_documents", "tokens_per_document", "soft_prompts"):
            at_least(f"model.{name}", getattr(self, name), 1)
        at_least("model.max_length", self.max_length, 4)
        at_least("model.characters_per_token", self.characters_per_token, 0)
        if self.train_length:
            at_least("model.train_length", self.train_length, 4)
        for name in ("sequence_dropout", "whole_context_dropout", "dropout"):
            probability(f"model.{name}", getattr(self, name))
        if not self.backbone:
            raise ConfigError(
                "model.backbone is empty; name a folder, a model on the hub, or minilm."
            )
        if self.kind == "contextual" and self.pooling not in ("", "mean"):
            raise ConfigError(
                f"model.pooling is {self.pooling}, but a contextual model pools by mean alone; "
                "leave model.pooling out, or set model.kind to biencoder."
            )
        for name in ("sequence_dropout", "whole_context_dropout"):
            if self.kind == "contextual" and getattr(self, name) and not self.null_context:
                raise ConfigError(
                    f"model.{name} is {getattr(self, name)}, which needs model.null_context; "
                    "set the first to 0 or the second to true."
                )
