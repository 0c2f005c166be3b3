"""`optimiser`, `checkpoints`, `evaluation`: how weights move, when they are kept and scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cde_core.errors import ConfigError
from cde_core.settings.bounds import STRICT, at_least, positive, probability


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimiserConfig:
    """AdamW, and how its learning rate moves."""

    __pydantic_config__ = STRICT

    learning_rate: float = 2e-5
    """Highest learning rate."""

    new_learning_rate: float = 0.0
    """The same of parts that are not from a backbone; 0: as the others."""

    weight_decay: float = 0.01
    """Decoupled weight decay; none on biases and norms."""

    betas: tuple[float, float] = (0.9, 0.999)
    """How much of the gradient's running mean, and of its square's, stays at each step."""

    epsilon: float = 1e-8
    """Added to the root of the second."""

    warmup: int = 1000
    """Steps in which the learning rate rises from 0."""

    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """After that: linearly, or as a cosine, to final_learning_rate at the end; or constant."""

    final_learning_rate: float = 0.0
    """What the learning rate falls to; that of new parts falls by the same factor."""

    clip: float = 1.0
    """Longest gradient, over all parameters; 0: any."""

    def __post_init__(self) -> None:
        positive("optimiser.learning_rate", self.learning_rate, such_as="2e-5")
        positive("optimiser.epsilon", self.epsilon, such_as="1e-8")
        for name in (
            *("new_learning_rate", "final_learning_rate"),
            *("weight_decay", "warmup", "clip"),
        ):
            at_least(f"optimiser.{name}", getattr(self, name), 0)
        if self.final_learning_rate > self.learning_rate:
            raise ConfigError(
                f"optimiser.final_learning_rate is {self.final_learning_rate}, above the "
                f"optimiser.learning_rate of {self.learning_rate}; it cannot fall to that."
            )
        for beta in self.betas:
            probability("optimiser.betas", beta)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """When the state of a run is saved."""

    __pydantic_config__ = STRICT

    every: int = 500
    """Steps from one to the next; 0: only at the end, and when the run is stopped."""

    keep: int = 2
    """How many of the latest stay."""

    def __post_init__(self) -> None:
        at_least("checkpoints.every", self.every, 0)
        at_least("checkpoints.keep", self.keep, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationConfig:
    """What the model is scored on while it is trained; decides nothing about the weights."""

    __pydantic_config__ = STRICT

    every: int = 0
    """Steps from one evaluation to the next, and one at the end; 0: never."""

    at_start: bool = True
    """Whether the untrained model is scored too, where anything is."""

    by: str = "mteb"
    """Who scores: a plug-in of the entry-point group cde_core.evaluations."""

    tasks: tuple[str, ...] = ()
    """Tasks, by name; where none are named, those of the data folders."""

    data: tuple[str, ...] = ()
    """Folders with data, such as BEIR folders."""

    context: tuple[str, ...] = ("corpus",)
    """What a contextual model reads first: corpus, random, none, task:NAME, file:PATH."""

    def __post_init__(self) -> None:
        at_least("evaluation.every", self.every, 0)
