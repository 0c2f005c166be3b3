"""`loss`, `spans`: what is learnt from a batch of pairs, or from texts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from cde_core.errors import ConfigError
from cde_core.settings.bounds import STRICT, at_least, positive, probability


@dataclass(frozen=True, kw_only=True, slots=True)
class LossConfig:
    """What training lowers."""

    __pydantic_config__ = STRICT

    objective: Literal["contrastive", "cosent", "classification", "distillation"] = "contrastive"
    """contrastive: pick each query's answer out of the batch. cosent: order pairs as their score
    does. classification: tell each pair's label from (u, v, |u - v|). distillation: rank each
    query's own documents as a teacher's scores do, and contrast as well."""

    temperature: float = 0.02
    """What cosines are divided by; smaller means sharper. Classification has none."""

    dimensions: tuple[int, ...] = ()
    """Lower the sum of the objective over the first so many dimensions (Matryoshka), such as 384,
    128 and 32; none: over all dimensions alone, which are to be named too where some are."""

    dimension_weights: tuple[float, ...] = ()
    """Weights in that sum, one for each of dimensions; none: 1."""

    labels: tuple[str, ...] = ()
    """Classes that the pairs have, and no others, for classification; none: those that they
    have."""

    contrastive_weight: float = 0.2
    """Of the contrastive part in distillation; 0: none."""

    teacher_temperature: float = 1.0
    """What a teacher's scores are divided by in distillation."""

    def __post_init__(self) -> None:
        positive("loss.temperature", self.temperature, such_as="0.02")
        positive("loss.teacher_temperature", self.teacher_temperature, such_as="1")
        at_least("loss.contrastive_weight", self.contrastive_weight, 0)
        for kept in self.dimensions:
            at_least("loss.dimensions", kept, 1)
        if len({*self.dimensions}) < len(self.dimensions):
            raise ConfigError(
                f"loss.dimensions is {', '.join(map(str, self.dimensions))}; name each once."
            )
        if self.dimension_weights and len(self.dimension_weights) != len(self.dimensions):
            raise ConfigError(
                f"loss.dimension_weights has {len(self.dimension_weights)} weights for "
                f"{len(self.dimensions)} loss.dimensions; give one for each, or none."
            )
        for weight in self.dimension_weights:
            positive("loss.dimension_weights", weight, such_as="1")
        if self.labels and self.objective != "classification":
            raise ConfigError(
                f"loss.labels are for classification, but loss.objective is {self.objective}; "
                "leave one of them out."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SpansConfig:
    """What is cut out of texts, where the task is span-corruption."""

    __pydantic_config__ = STRICT

    share: float = 0.15
    """Of a text's tokens."""

    mean_length: float = 3.0
    """Tokens of a span, on average."""

    def __post_init__(self) -> None:
        positive("spans.share", self.share, such_as="0.15")
        probability("spans.share", self.share)
        if not 1 <= self.mean_length < math.inf:
            raise ConfigError(
                f"spans.mean_length is {self.mean_length}; the least that works is 1."
            )
