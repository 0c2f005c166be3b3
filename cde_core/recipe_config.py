"""Everything that decides a training run: frozen, explained field by field, checked before work.

    data → clusters → batches (filter, loss) → model, optimiser → checkpoints, evaluation
       a section each, in settings/          all of it: Recipe

A recipe is a small YAML file (recipe.py reads it) and becomes one of these values; the same value
is saved beside what it produced. Every check names the field as it is written in the file and on
the command line, and offers the nearest value that works.

Defaults are those of the paper where it gives them.

Source: Morris and Rush (2024), sections 4 and 5, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cde_core.errors import ConfigError
from cde_core.settings.batches import BatchConfig, ClusterConfig, FilterConfig, NegativesConfig
from cde_core.settings.bounds import STRICT, at_least, known_device
from cde_core.settings.data import DataConfig
from cde_core.settings.loss import LossConfig, SpansConfig
from cde_core.settings.model import ModelConfig
from cde_core.settings.training import CheckpointConfig, EvaluationConfig, OptimiserConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A training run."""

    __pydantic_config__ = STRICT

    name: str = ""
    """What the run is called; by default as its file."""

    about: str = ""
    """What it reproduces or shows."""

    output: Path | None = None
    """Folder of everything that the run writes; by default runs/NAME."""

    task: Literal["contrastive", "span-corruption"] = "contrastive"
    """What is learnt: which document answers a query; or, by a T5 with its decoder, to fill in what
    was cut out of texts. The second takes the texts of data.sources, the documents of pairs or a
    whole corpus, and ignores clusters, filter and loss; batches.size counts windows of
    model.max_length tokens."""

    seed: int = 0
    """Of new weights, packing, context draws, spans and dropout."""

    epochs: int = 1
    """How often every pair is seen."""

    steps: int = 0
    """Exactly so many steps, however many epochs that takes; 0: as many as the epochs have."""

    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the transformers' arithmetic; weights are float32."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""

    data: DataConfig = field(default_factory=DataConfig)
    """Where pairs come from."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """What is trained."""

    clusters: ClusterConfig = field(default_factory=ClusterConfig)
    """How pairs are grouped."""

    batches: BatchConfig = field(default_factory=BatchConfig)
    """How groups become batches."""

    filter: FilterConfig = field(default_factory=FilterConfig)
    """Which documents are no negatives."""

    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    """Hard negatives from the model under training."""

    loss: LossConfig = field(default_factory=LossConfig)
    """The loss."""

    spans: SpansConfig = field(default_factory=SpansConfig)
    """What is cut out of texts."""

    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    """The optimiser."""

    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When the state is saved."""

    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """What is scored in between."""

    tensorboard: bool = False
    """Write metrics for TensorBoard too."""

    def __post_init__(self) -> None:
        at_least("seed", self.seed, 0)
        at_least("epochs", self.epochs, 1)
        at_least("steps", self.steps, 0)
        known_device(self.device)
        if self.negatives.every_epochs and not self.batches.hard_negatives:
            raise ConfigError(
                f"negatives.every_epochs is {self.negatives.every_epochs}, but "
                "batches.hard_negatives is 0, so no step would use one; set it to "
                f"{self.negatives.per_query}."
            )
        self._check_objective()
        longest = self.model.train_length or self.model.max_length
        if self.batches.tokens_at_once < longest:
            raise ConfigError(
                f"batches.tokens_at_once is {self.batches.tokens_at_once}, but one text may have "
                f"{longest} tokens; the least that works is {longest}."
            )

    def _check_objective(self) -> None:
        """An objective and the batches that it needs."""
        objective, negatives = self.loss.objective, self.batches.hard_negatives
        if objective in ("cosent", "classification") and negatives:
            raise ConfigError(
                f"batches.hard_negatives is {negatives}, but loss.objective {objective} looks at "
                "no negatives; set it to 0."
            )
        if objective == "distillation" and not negatives:
            raise ConfigError(
                "batches.hard_negatives is 0, but loss.objective distillation ranks an answer "
                "among hard negatives; the least that works is 1."
            )
        if objective == "distillation" and self.negatives.every_epochs:
            raise ConfigError(
                f"negatives.every_epochs is {self.negatives.every_epochs}, but loss.objective "
                "distillation needs a teacher's scores, which negatives found in training have "
                "not; set it to 0."
            )
        if self.data.twice and (objective != "contrastive" or negatives):
            raise ConfigError(
                f"data.twice is true, which leaves texts alone, but loss.objective is {objective} "
                f"and batches.hard_negatives {negatives}; it works with contrastive and 0."
            )
        if self.data.twice and not self.model.dropout:
            raise ConfigError(
                "model.dropout is 0, so the two passes over a text that data.twice asks for would "
                "be the same; set it to 0.1."
            )
