"""A run on pairs: what a batch is, and whose gradient it gives.

    recipe ──▶ prepare ──▶ starting_model ──▶ Run: plan, texts, masks ──▶ batch_gradient
                                               └─────── loop.py does the rest

Source: Morris and Rush (2024), sections 4 and 5, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cde_core.model.contextual import ContextualEncoder
from cde_core.plugins import plugin
from cde_core.recipe import Recipe
from cde_core.train.batching.batches import (
    BatchPlan,
    BatchTexts,
    judged_of,
    plan_batch,
    texts_of,
)
from cde_core.train.batching.filtering import Masks
from cde_core.train.distributed import World
from cde_core.train.gradients import BatchLoss, HowToCompute, batch_gradient
from cde_core.train.log import MetricsLog, TrainingBar
from cde_core.train.loop import Loop, finish_run
from cde_core.train.objectives.chosen import objective_for
from cde_core.train.objectives.objective import Judged, Objective
from cde_core.train.optimiser import make_optimiser
from cde_core.train.preparation import prepare
from cde_core.train.rivals.refresh import Refresh
from cde_core.train.run_folder import RunFolder
from cde_core.train.starting_model import as_learner, starting_model


def train(recipe: Recipe) -> Path:
    """Train a model, or go on training it, and return its folder.

    Args:
        recipe: Everything that decides the run; `output` is its folder.

    Raises:
        ConfigError: If the recipe cannot be followed, or the folder holds another run.
        DataError: If the data cannot be read.
        TrainingError: If the loss or a gradient is not a number.
        SystemExit: After SIGTERM or SIGINT; the run is saved and can be continued.
    """
    return finish_run(recipe, Run)


class Batch(NamedTuple):
    """Some pairs, with all that a step needs of them."""

    plan: BatchPlan
    texts: BatchTexts
    masks: Masks
    judged: Judged


class Run(Loop[Batch]):
    """A run on pairs, at the step where it stands."""

    objective: Objective

    def __init__(self, recipe: Recipe, folder: RunFolder, world: World) -> None:
        super().__init__(recipe, folder, world)
        self.encoder = starting_model(
            recipe.model, temperature=recipe.loss.temperature, seed=recipe.seed
        )
        self.data = prepare(recipe, world, self.say)
        self.steps, self.examples = self.data.steps, len(self.data.pairs)
        self.content = {"pairs": self.data.pairs.digest}
        self.encoder.model.to(world.device)
        self.learner = as_learner(self.encoder, recipe.model)
        self.objective = objective_for(
            recipe.loss,
            width=self.encoder.dimension,
            classes=len(self.data.pairs.labels),
            seed=recipe.seed,
        ).to(world.device)
        chosen = recipe.optimiser
        self.optimiser = make_optimiser(
            self.encoder.model,
            learning_rate=chosen.learning_rate,
            new_learning_rate=chosen.new_learning_rate,
            weight_decay=chosen.weight_decay,
            betas=chosen.betas,
            epsilon=chosen.epsilon,
            freeze=_frozen(recipe),
            objective=self.objective,
        )
        self.how = HowToCompute(
            tokens_at_once=recipe.batches.tokens_at_once,
            keep_graphs=not recipe.batches.gradient_cache,
            precision=getattr(torch, recipe.precision),
        )
        self.negatives = Refresh(recipe, self.data, folder.negatives, world, self.say)
        self.begin()

    def batches(self) -> Iterator[Batch]:
        """The batches that are left; each is made while the one before is computed."""
        for steps in self.negatives.stretches(self.done):
            if self.negatives.are_to_be_found(steps.start):
                if self.done:
                    self.save()  # finding them takes long, and may be killed
                self.negatives.find(steps.start, self.encoder)
            self.negatives.use_those_of(steps.start)
            with ThreadPoolExecutor(1) as ahead:
                coming = [ahead.submit(self._batch, step) for step in steps[:1]]
                for step in steps:
                    now = coming.pop().result()
                    coming = [ahead.submit(self._batch, step + 1)] if step + 1 in steps else []
                    yield now

    def gradient(self, batch: Batch) -> BatchLoss:
        """Add a batch's gradient to every parameter's."""
        return batch_gradient(
            self.learner,
            batch.plan,
            batch.texts,
            batch.masks,
            objective=self.objective,
            judged=batch.judged,
            share_negatives=self.recipe.batches.share_negatives,
            how=self.how,
            world=self.world,
        )

    def evaluates_after(self, step: int) -> bool:
        """As the recipe says."""
        chosen = self.recipe.evaluation
        if not chosen.every:
            return False
        return chosen.at_start if step == 0 else step % chosen.every == 0 or step == self.steps

    def evaluate(self, log: MetricsLog, bar: TrainingBar) -> None:
        """Score the model on the recipe's tasks."""
        if self.world.leads:
            evaluate = plugin("cde_core.evaluations", self.recipe.evaluation.by)
            self.encoder.model.eval()
            self.scores = evaluate(self.encoder, self.recipe.evaluation)
            self.encoder.model.train()
            log.write(self.done, {"scores": self.scores})
            shown = " · ".join(f"{name} {score:.4f}" for name, score in self.scores.items())
            bar.say(f"after step {self.done:,}: {shown}")
        self.world.wait()

    def _batch(self, step: int) -> Batch:
        model, settings = self.encoder.model, self.recipe.model
        pairs = self.negatives.pairs
        context: dict[str, Any] = {}
        if isinstance(model, ContextualEncoder):
            context = {
                "context_documents": model.config.context_documents,
                "tokens_per_document": model.config.tokens_per_document,
                "sequence_dropout": settings.sequence_dropout,
                "whole_context_dropout": settings.whole_context_dropout,
            }
        plan = plan_batch(
            self.data.rows(step),
            pairs,
            step=step,
            seed=self.recipe.seed,
            hard_negatives=self.recipe.batches.hard_negatives,
            **context,
        )
        prefixes = self.recipe.data.prefixes if model.config.prefixes else None
        texts = texts_of(plan, pairs, prefixes)
        masks = self.negatives.filter.masks(plan, texts)
        return Batch(plan, texts, masks, judged_of(plan, pairs))


def _frozen(recipe: Recipe) -> list[str]:
    """Parts that stand still; a biencoder has no first stage that could."""
    parts = recipe.model.freeze
    one_stage = recipe.model.kind == "biencoder"
    return [part for part in parts if not (one_stage and part.startswith("first_stage"))]
