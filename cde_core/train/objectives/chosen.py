"""The objective that a recipe asks for.

LossConfig, width, classes ──▶ objective_for ──▶ Objective
"""

from __future__ import annotations

from cde_core.errors import ConfigError
from cde_core.settings.loss import LossConfig
from cde_core.train.objectives.classification import Classification
from cde_core.train.objectives.contrastive import Contrastive
from cde_core.train.objectives.cosent import Cosent
from cde_core.train.objectives.distillation import Distillation
from cde_core.train.objectives.matryoshka import Matryoshka
from cde_core.train.objectives.objective import Objective


def objective_for(settings: LossConfig, *, width: int, classes: int, seed: int) -> Objective:
    """Make a recipe's objective, on the CPU.

    Args:
        settings: Of the recipe.
        width: Of the model's vectors.
        classes: That the pairs have.
        seed: Of layers of its own.

    Raises:
        ConfigError: If more dimensions are asked for than the vectors have.
    """

    def of_width(kept: int) -> Objective:
        match settings.objective:
            case "contrastive":
                return Contrastive(settings.temperature)
            case "cosent":
                return Cosent(settings.temperature)
            case "classification":
                return Classification(kept, classes, seed=seed)
            case "distillation":
                return Distillation(
                    settings.temperature,
                    contrastive_weight=settings.contrastive_weight,
                    teacher_temperature=settings.teacher_temperature,
                )

    if not settings.dimensions:
        return of_width(width)
    if max(settings.dimensions) > width:
        raise ConfigError(
            f"loss.dimensions names {max(settings.dimensions)}, but the model's vectors have "
            f"{width}; the most that works is {width}."
        )
    return Matryoshka(of_width, settings.dimensions, settings.dimension_weights)
