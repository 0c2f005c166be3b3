"""The loop: batch, gradient, step, and everything that must survive an accident.

    recipe ──▶ prepare ──▶ starting_model ──▶ for every step: batch_gradient ──▶ AdamW ──▶ model/
                                                    │
                                metrics, checkpoints, evaluation

All that a step depends on follows from the recipe, the step's number and the weights. So a run that
was killed at any moment and started again ends with the same weights as one that was not, bit for
bit on a CPU, and the same command continues it.

Source: Morris and Rush (2024), sections 4 and 5, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cde_core.errors import ConfigError, TrainingError
from cde_core.model.checkpoint import save
from cde_core.model.contextual import ContextualEncoder
from cde_core.plugins import plugin
from cde_core.recipe import Recipe, digest
from cde_core.train.batching.batches import (
    BatchPlan,
    BatchTexts,
    judged_of,
    plan_batch,
    texts_of,
)
from cde_core.train.batching.filtering import Masks
from cde_core.train.checkpoints import newest_checkpoint, save_checkpoint
from cde_core.train.distributed import World
from cde_core.train.gradients import BatchLoss, HowToCompute, batch_gradient
from cde_core.train.interruptions import Interruptions
from cde_core.train.log import MetricsLog, TrainingBar
from cde_core.train.objectives.chosen import objective_for
from cde_core.train.objectives.objective import Judged
from cde_core.train.optimiser import (
    clip_gradients,
    learning_rate_at,
    make_optimiser,
    set_learning_rate,
)
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
    if recipe.output is None:
        raise ConfigError("The recipe says no output; add --output DIR.")
    world = World.join(recipe.device)
    try:
        folder = RunFolder(recipe.output)
        with folder.entered(recipe, world):
            if folder.is_finished(recipe):
                _say(
                    world,
                    f"{folder.path} is finished already; to train its model further, name it in a "
                    f"new run: --model.backbone {folder.model} --output OTHER",
                )
                return folder.model
            run = Run(recipe, folder, world)
            with Interruptions() as interruptions:
                run.go(interruptions)
        return folder.model
    finally:
        world.leave()


class Run:
    """A training run from its recipe, at the step where it stands."""

    def __init__(self, recipe: Recipe, folder: RunFolder, world: World) -> None:
        self.recipe, self.folder, self.world = recipe, folder, world
        self.digest = digest(recipe)
        self.data = prepare(recipe, world, lambda line: _say(world, line))
        self.encoder = starting_model(
            recipe.model, temperature=recipe.loss.temperature, seed=recipe.seed
        )
        self.encoder.model.to(world.device)
        self.learner = as_learner(self.encoder, recipe.model)
        self.objective = objective_for(
            recipe.loss,
            width=self.encoder.dimension,
            classes=len(self.data.pairs.labels),
            seed=recipe.seed,
        ).to(world.device)
        self.parameters = [*self.encoder.model.parameters(), *self.objective.parameters()]
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
        self.negatives = Refresh(
            recipe, self.data, folder.negatives, world, lambda line: _say(world, line)
        )
        self.scores: dict[str, float] = {}
        self.done = self._go_back_to_the_last_checkpoint()
        if world.leads:
            folder.write_recipe(recipe)

    def go(self, interruptions: Interruptions) -> None:
        """Do the steps that are left, then write the model and the result."""
        with self._log() as log, self._bar() as bar:
            if self.done == 0 and self.recipe.evaluation.at_start:
                self._evaluate(log, bar)
            self.encoder.model.train()
            for plan, texts, masks, judged in self._batches():
                self._step(plan, texts, masks, judged, log, bar)
                if self._evaluates_now():
                    self._evaluate(log, bar)
                asked = interruptions.anywhere(self.world)
                if asked or self._saves_now():
                    self._save()
                if asked:
                    bar.say(
                        f"stopped after step {self.done:,}; the same command goes on from there"
                    )
                    sys.exit(128 + asked)
        self._finish()

    def _log(self) -> MetricsLog:
        """Every process has one; the first's is the run's."""
        after = self.done or -1  # a new run drops even the scores of an untrained model
        return MetricsLog(
            self.folder.metrics(self.world.rank),
            after_step=after,
            tensorboard=self.recipe.tensorboard and self.world.leads,
        )

    def _bar(self) -> TrainingBar:
        file = sys.stderr if self.world.leads else Path(os.devnull).open("w")
        return TrainingBar(self.data.steps, done=self.done, file=file)

    def _batches(self) -> Iterator[tuple[BatchPlan, BatchTexts, Masks, Judged]]:
        """The batches that are left; each is made while the one before is computed."""
        for steps in self.negatives.stretches(self.done):
            if self.negatives.are_to_be_found(steps.start):
                if self.done:
                    self._save()  # finding them takes long, and may be killed
                self.negatives.find(steps.start, self.encoder)
            self.negatives.use_those_of(steps.start)
            with ThreadPoolExecutor(1) as ahead:
                coming = [ahead.submit(self._batch, step) for step in steps[:1]]
                for step in steps:
                    now = coming.pop().result()
                    coming = [ahead.submit(self._batch, step + 1)] if step + 1 in steps else []
                    yield now

    def _batch(self, step: int) -> tuple[BatchPlan, BatchTexts, Masks, Judged]:
        model, settings = self.encoder.model, self.recipe.model
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
            self.negatives.pairs,
            step=step,
            seed=self.recipe.seed,
            hard_negatives=self.recipe.batches.hard_negatives,
            **context,
        )
        prefixes = self.recipe.data.prefixes if model.config.prefixes else None
        pairs = self.negatives.pairs
        texts = texts_of(plan, pairs, prefixes)
        masks = self.negatives.filter.masks(plan, texts)
        return plan, texts, masks, judged_of(plan, pairs)

    def _step(
        self,
        plan: BatchPlan,
        texts: BatchTexts,
        masks: Masks,
        judged: Judged,
        log: MetricsLog,
        bar: TrainingBar,
    ) -> None:
        started = time.perf_counter()
        torch.manual_seed(_seed(self.recipe.seed, plan.step, self.world.rank))
        self.optimiser.zero_grad(set_to_none=True)
        report = batch_gradient(
            self.learner,
            plan,
            texts,
            masks,
            objective=self.objective,
            judged=judged,
            share_negatives=self.recipe.batches.share_negatives,
            how=self.how,
            world=self.world,
        )
        norm = clip_gradients(self.parameters, self.recipe.optimiser.clip)
        self._require_numbers(plan.step, report, norm)
        chosen = self.recipe.optimiser
        factor = learning_rate_at(
            plan.step,
            steps=self.data.steps,
            warmup=chosen.warmup,
            schedule=chosen.schedule,
            lowest=chosen.final_learning_rate / chosen.learning_rate,
        )
        set_learning_rate(self.optimiser, factor)
        self.optimiser.step()
        self.done = plan.step + 1
        seconds = time.perf_counter() - started
        log.write(self.done, _metrics(report, norm, factor * chosen.learning_rate, seconds))
        bar.update(
            self.done,
            loss=report.loss,
            shares=dict(list(report.measures.items())[:1]),
            pairs_per_second=len(plan.rows) / seconds,
        )

    def _require_numbers(self, step: int, report: BatchLoss, norm: float) -> None:
        if math.isfinite(report.loss) and math.isfinite(norm):
            return
        kept = newest_checkpoint(self.folder.checkpoints, warn=lambda _: None)
        what = "gradient" if math.isfinite(report.loss) else "loss"
        good = f"{kept.path} holds the run after step {kept.step}" if kept else "none is saved yet"
        raise TrainingError(
            f"The {what} of step {step + 1} is not a number; the last good checkpoint: {good}. "
            "Lower optimiser.learning_rate, raise loss.temperature, or set precision to float32, "
            "with a new --output."
        )

    def _go_back_to_the_last_checkpoint(self) -> int:
        """Steps that are done already."""
        checkpoint = newest_checkpoint(
            self.folder.checkpoints, warn=lambda line: _say(self.world, line)
        )
        if checkpoint is None:
            return 0
        if checkpoint.extra.get("pairs") != self.data.pairs.digest:
            raise ConfigError(
                f"The data of {self.folder.path} changed since its run began, so it cannot go on; "
                "restore the data, or name another --output."
            )
        checkpoint.restore(self.encoder, self.optimiser, self.objective)
        self.scores = dict(checkpoint.extra.get("scores", {}))
        _say(self.world, f"going on after step {checkpoint.step:,}")
        return checkpoint.step

    def _saves_now(self) -> bool:
        every = self.recipe.checkpoints.every
        return self.done == self.data.steps or bool(every and self.done % every == 0)

    def _save(self) -> None:
        if self.world.leads:
            save_checkpoint(
                self.folder.checkpoints,
                self.encoder,
                self.optimiser,
                step=self.done,
                recipe_digest=self.digest,
                extra={"scores": self.scores, "pairs": self.data.pairs.digest},
                keep=self.recipe.checkpoints.keep,
                objective=self.objective,
            )
        self.world.wait()

    def _evaluates_now(self) -> bool:
        every = self.recipe.evaluation.every
        return bool(every) and (self.done % every == 0 or self.done == self.data.steps)

    def _evaluate(self, log: MetricsLog, bar: TrainingBar) -> None:
        if self.recipe.evaluation.every and self.world.leads:
            evaluate = plugin("cde_core.evaluations", self.recipe.evaluation.by)
            self.encoder.model.eval()
            self.scores = evaluate(self.encoder, self.recipe.evaluation)
            self.encoder.model.train()
            log.write(self.done, {"scores": self.scores})
            shown = " · ".join(f"{name} {score:.4f}" for name, score in self.scores.items())
            bar.say(f"after step {self.done:,}: {shown}")
        self.world.wait()

    def _finish(self) -> None:
        if self.world.leads:
            self.encoder.model.eval()
            save(self.encoder, self.folder.model)
            self.folder.write_result(
                self.recipe,
                steps=self.done,
                pairs=len(self.data.pairs),
                scores=self.scores,
                device=str(self.world.device),
                processes=self.world.size,
            )
        self.world.wait()


def _frozen(recipe: Recipe) -> list[str]:
    """Parts that stand still; a biencoder has no first stage that could."""
    parts = recipe.model.freeze
    one_stage = recipe.model.kind == "biencoder"
    return [part for part in parts if not (one_stage and part.startswith("first_stage"))]


def _seed(*numbers: int) -> int:
    """One seed out of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _say(world: World, line: str) -> None:
    if world.leads:
        print(line, file=sys.stderr, flush=True)


def _metrics(report: BatchLoss, norm: float, rate: float, seconds: float) -> dict[str, float]:
    return {
        "loss": report.loss,
        **report.measures,
        "gradient_norm": norm,
        "learning_rate": rate,
        "seconds": seconds,
    }
