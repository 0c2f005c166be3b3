"""The loop of every run: batch, gradient, step, and everything that must survive an accident.

    finish_run(recipe, Kind) ──▶ Kind.go: batches ──▶ gradient ──▶ AdamW ──▶ model/
                                                          │
                                     metrics, checkpoints, evaluation

What a batch is and how its gradient comes about is the kind's own (trainer.py for pairs,
pretraining/pretrainer.py for texts with gaps). All that a step depends on follows from the recipe,
the step's number and the weights. So a run that was killed at any moment and started again ends
with the same weights as one that was not, bit for bit on a CPU, and the same command continues it.
"""

from __future__ import annotations

import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from torch.optim import Optimizer

from cde_core.errors import ConfigError, TrainingError
from cde_core.model.checkpoint import save
from cde_core.model.encode import TextEncoder
from cde_core.recipe import Recipe, digest
from cde_core.train.checkpoints import newest_checkpoint, save_checkpoint
from cde_core.train.distributed import World
from cde_core.train.gradients import BatchLoss
from cde_core.train.interruptions import Interruptions
from cde_core.train.log import MetricsLog, TrainingBar
from cde_core.train.objectives.objective import Objective
from cde_core.train.optimiser import clip_gradients, learning_rate_at, set_learning_rate
from cde_core.train.run_folder import RunFolder

Batch = TypeVar("Batch")


class Loop(ABC, Generic[Batch]):
    """A run from its recipe, at the step where it stands; kinds of runs fill in the rest."""

    encoder: TextEncoder
    """What is trained, and saved at the end."""

    objective: Objective | None = None
    """Layers that are trained with it and are no part of it."""

    optimiser: Optimizer

    steps: int
    """Of the whole run."""

    examples: int
    """Pairs, or texts, that batches are made of."""

    content: dict[str, str]
    """A digest of the data under the name by which checkpoints know it."""

    unit = "pairs"
    """What a batch is so many of."""

    def __init__(self, recipe: Recipe, folder: RunFolder, world: World) -> None:
        """Remember whose run it is; a kind then sets what stands above, and calls `begin`."""
        self.recipe, self.folder, self.world = recipe, folder, world
        self.scores: dict[str, float] = {}
        self.done = 0

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The batches that are left."""

    @abstractmethod
    def gradient(self, batch: Batch) -> BatchLoss:
        """Add a batch's gradient to every parameter's."""

    def evaluates_after(self, step: int) -> bool:
        """Whether the model is scored after so many steps."""
        return False

    def evaluate(self, log: MetricsLog, bar: TrainingBar) -> None:
        """Score the model as it stands."""

    def begin(self) -> None:
        """Go back to where the run was left, if it was."""
        self.done = self._go_back_to_the_last_checkpoint()
        if self.world.leads:
            self.folder.write_recipe(self.recipe)

    def go(self, interruptions: Interruptions) -> None:
        """Do the steps that are left, then write the model and the result."""
        with self._log() as log, self._bar() as bar:
            if self.done == 0 and self.evaluates_after(0):
                self.evaluate(log, bar)
            self.encoder.model.train()
            for batch in self.batches():
                self._step(batch, log, bar)
                if self.evaluates_after(self.done):
                    self.evaluate(log, bar)
                asked = interruptions.anywhere(self.world)
                if asked or self._saves_now():
                    self.save()
                if asked:
                    bar.say(
                        f"stopped after step {self.done:,}; the same command goes on from there"
                    )
                    sys.exit(128 + asked)
        self._finish()

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        if self.world.leads:
            save_checkpoint(
                self.folder.checkpoints,
                self.encoder,
                self.optimiser,
                step=self.done,
                recipe_digest=digest(self.recipe),
                extra={"scores": self.scores, **self.content},
                keep=self.recipe.checkpoints.keep,
                objective=self.objective,
            )
        self.world.wait()

    def say(self, line: str) -> None:
        """Tell people, once for all processes."""
        say(self.world, line)

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
        return TrainingBar(self.steps, done=self.done, file=file, unit=self.unit)

    def _step(self, batch: Batch, log: MetricsLog, bar: TrainingBar) -> None:
        started, step, chosen = time.perf_counter(), self.done, self.recipe.optimiser
        torch.manual_seed(_seed(self.recipe.seed, step, self.world.rank))
        self.optimiser.zero_grad(set_to_none=True)
        report = self.gradient(batch)
        norm = clip_gradients(self._parameters(), chosen.clip)
        self._require_numbers(step, report, norm)
        factor = learning_rate_at(
            step,
            steps=self.steps,
            warmup=chosen.warmup,
            schedule=chosen.schedule,
            lowest=chosen.final_learning_rate / chosen.learning_rate,
        )
        set_learning_rate(self.optimiser, factor)
        self.optimiser.step()
        self.done = step + 1
        seconds = time.perf_counter() - started
        metrics = {
            "loss": report.loss,
            **report.measures,
            "gradient_norm": norm,
            "learning_rate": factor * chosen.learning_rate,
            "seconds": seconds,
        }
        log.write(self.done, metrics)
        bar.update(
            self.done,
            loss=report.loss,
            shares=dict(list(report.measures.items())[:1]),
            pairs_per_second=self.recipe.batches.size / seconds,
        )

    def _parameters(self) -> list[torch.nn.Parameter]:
        own = self.objective.parameters() if self.objective is not None else ()
        return [*self.encoder.model.parameters(), *own]

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
        checkpoint = newest_checkpoint(self.folder.checkpoints, warn=self.say)
        if checkpoint is None:
            return 0
        if any(checkpoint.extra.get(name) != value for name, value in self.content.items()):
            raise ConfigError(
                f"The data of {self.folder.path} changed since its run began, so it cannot go on; "
                "restore the data, or name another --output."
            )
        checkpoint.restore(self.encoder, self.optimiser, self.objective)
        self.scores = dict(checkpoint.extra.get("scores", {}))
        self.say(f"going on after step {checkpoint.step:,}")
        return checkpoint.step

    def _saves_now(self) -> bool:
        every = self.recipe.checkpoints.every
        return self.done == self.steps or bool(every and self.done % every == 0)

    def _finish(self) -> None:
        if self.world.leads:
            self.encoder.model.eval()
            save(self.encoder, self.folder.model)
            self.folder.write_result(
                self.recipe,
                steps=self.done,
                pairs=self.examples,
                scores=self.scores,
                device=str(self.world.device),
                processes=self.world.size,
            )
        self.world.wait()


def finish_run(recipe: Recipe, kind: Callable[[Recipe, RunFolder, World], Loop[Batch]]) -> Path:
    """Do a run, or what is left of it, and return the folder of its model.

    Args:
        recipe: Everything that decides the run; `output` is its folder.
        kind: Makes the run.

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
        if recipe.batches.size < world.size:
            raise ConfigError(
                f"batches.size is {recipe.batches.size}, but {world.size} processes share every "
                f"batch; set it to {world.size} or more, or start fewer."
            )
        folder = RunFolder(recipe.output)
        with folder.entered(recipe, world):
            if folder.is_finished(recipe):
                say(
                    world,
                    f"{folder.path} is finished already; to train its model further, name it in a "
                    f"new run: --model.backbone {folder.model} --output OTHER",
                )
                return folder.model
            run = kind(recipe, folder, world)
            with Interruptions() as interruptions:
                run.go(interruptions)
        return folder.model
    finally:
        world.leave()


def say(world: World, line: str) -> None:
    """Tell people, once for all processes."""
    if world.leads:
        print(line, file=sys.stderr, flush=True)


def _seed(*numbers: int) -> int:
    """One seed out of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
