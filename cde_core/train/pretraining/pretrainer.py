"""The loop of pre-training: what the trainer's is for pairs, for texts with gaps.

    recipe ──▶ windows ──▶ T5 with its decoder ──▶ language_gradient ──▶ AdamW ──▶ model/
                                                      └── for every step ──┘

Folder, checkpoints, optimiser, log and signals are those of every run, so a run that was stopped or
killed goes on with the same command and ends with the same weights, bit for bit on a CPU. The model
is saved with its decoder and its words, and the recipe of the next stage names its folder as the
backbone.

Source: Raffel et al. (2020), https://arxiv.org/abs/1910.10683; Coelho et al. (2024), section 3.2,
https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

import torch

from cde_core.errors import ConfigError, TrainingError
from cde_core.model.checkpoint import save
from cde_core.model.sentinels import sentinels_of
from cde_core.model.t5 import T5
from cde_core.recipe import Recipe, digest
from cde_core.train.checkpoints import newest_checkpoint, save_checkpoint
from cde_core.train.distributed import World
from cde_core.train.interruptions import Interruptions
from cde_core.train.log import MetricsLog, TrainingBar, WorkBar
from cde_core.train.optimiser import (
    clip_gradients,
    learning_rate_at,
    make_optimiser,
    set_learning_rate,
)
from cde_core.train.preparation import training_cache
from cde_core.train.pretraining.language_batches import LanguageBatches
from cde_core.train.pretraining.language_loss import LanguageLoss, language_gradient, seed_of
from cde_core.train.pretraining.token_windows import frame_of, prepare_windows
from cde_core.train.run_folder import RunFolder
from cde_core.train.starting_t5 import starting_language_model


def pretrain(recipe: Recipe) -> Path:
    """Train a T5 to fill in spans, or go on training it, and return its folder.

    Args:
        recipe: Everything that decides the run; `output` is its folder.

    Raises:
        ConfigError: If the recipe cannot be followed, or the folder holds another run.
        DataError: If the texts cannot be read.
        TrainingError: If the loss or a gradient is not a number.
        SystemExit: After SIGTERM or SIGINT; the run is saved and can be continued.
    """
    if recipe.output is None:
        raise ConfigError("The recipe says no output; add --output DIR.")
    if recipe.evaluation.every:
        raise ConfigError(
            "evaluation.every is set, but a T5 that fills in spans is scored by its loss alone; "
            "set it to 0."
        )
    world = World.join(recipe.device)
    try:
        folder = RunFolder(recipe.output)
        with folder.entered(recipe, world):
            if folder.is_finished(recipe):
                _say(world, f"{folder.path} is finished already")
                return folder.model
            run = LanguageRun(recipe, folder, world)
            with Interruptions() as interruptions:
                run.go(interruptions)
        return folder.model
    finally:
        world.leave()


class LanguageRun:
    """A run from its recipe, at the step where it stands."""

    def __init__(self, recipe: Recipe, folder: RunFolder, world: World) -> None:
        self.recipe, self.folder, self.world = recipe, folder, world
        self.encoder = starting_language_model(recipe.model, seed=recipe.seed)
        self.encoder.model.to(world.device)
        backbone = self.encoder.model.backbone
        assert isinstance(backbone, T5)
        self.model = backbone
        self.batches = self._prepare()
        self.steps = self.batches.steps
        chosen = recipe.optimiser
        self.optimiser = make_optimiser(
            self.encoder.model,
            learning_rate=chosen.learning_rate,
            weight_decay=chosen.weight_decay,
            betas=chosen.betas,
            epsilon=chosen.epsilon,
            freeze=recipe.model.freeze,
        )
        self.done = self._go_back_to_the_last_checkpoint()
        if world.leads:
            folder.write_recipe(recipe)

    def go(self, interruptions: Interruptions) -> None:
        """Do the steps that are left, then write the model and the result."""
        log = MetricsLog(
            self.folder.metrics(self.world.rank),
            after_step=self.done or -1,
            tensorboard=self.recipe.tensorboard and self.world.leads,
        )
        file = sys.stderr if self.world.leads else Path(os.devnull).open("w")
        with log, TrainingBar(self.steps, done=self.done, file=file, unit="texts") as bar:
            self.encoder.model.train()
            while self.done < self.steps:
                self._step(log, bar)
                asked = interruptions.anywhere(self.world)
                every = self.recipe.checkpoints.every
                if asked or self.done == self.steps or (every and self.done % every == 0):
                    self._save()
                if asked:
                    bar.say(f"stopped after step {self.done:,}; the same command goes on")
                    sys.exit(128 + asked)
        self._finish()

    def _prepare(self) -> LanguageBatches:
        tokenizer = self.encoder.reader.tokenizer
        tokenizer.no_truncation()
        sentinels, frame = sentinels_of(tokenizer), frame_of(tokenizer)
        if not len(sentinels):
            raise ConfigError(
                f"The tokenizer of {self.recipe.model.backbone} has no <extra_id_0>, which stands "
                "for what is cut out; name a T5, or set model.scratch.hidden."
            )
        size = self.recipe.model.train_length or self.recipe.model.max_length
        size -= len(frame.before) + len(frame.after)
        with WorkBar(0, "texts read", lambda line: _say(self.world, line)) as progress:
            windows = prepare_windows(
                self.recipe.data, tokenizer, size=size, cache=training_cache(), progress=progress
            )
        tokenizer.enable_truncation(self.encoder.reader.max_length)
        _say(self.world, f"{len(windows.tokens):,} tokens, {len(windows):,} windows of {size:,}")
        return LanguageBatches(windows, frame, sentinels, self.recipe)

    def _step(self, log: MetricsLog, bar: TrainingBar) -> None:
        started, recipe, step = time.perf_counter(), self.recipe, self.done
        torch.manual_seed(seed_of(recipe.seed, step, self.world.rank))
        self.optimiser.zero_grad(set_to_none=True)
        report = language_gradient(
            self.model,
            self.batches.examples(step, self.world.share(recipe.batches.size)),
            tokens_at_once=recipe.batches.tokens_at_once,
            precision=getattr(torch, recipe.precision),
            world=self.world,
        )
        chosen = recipe.optimiser
        norm = clip_gradients(self.encoder.model.parameters(), chosen.clip)
        _require_numbers(step, report, norm)
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
            "accuracy": report.accuracy,
            "words": report.words,
            "gradient_norm": norm,
            "learning_rate": factor * chosen.learning_rate,
            "seconds": seconds,
        }
        log.write(self.done, metrics)
        bar.update(
            self.done,
            loss=report.loss,
            shares={"accuracy": report.accuracy},
            pairs_per_second=recipe.batches.size / seconds,
        )

    def _go_back_to_the_last_checkpoint(self) -> int:
        """Steps that are done already."""
        checkpoint = newest_checkpoint(
            self.folder.checkpoints, warn=lambda line: _say(self.world, line)
        )
        if checkpoint is None:
            return 0
        if checkpoint.extra.get("tokens") != self.batches.windows.digest:
            raise ConfigError(
                f"The data of {self.folder.path} changed since its run began, so it cannot go on; "
                "restore the data, or name another --output."
            )
        checkpoint.restore(self.encoder, self.optimiser)
        _say(self.world, f"going on after step {checkpoint.step:,}")
        return checkpoint.step

    def _save(self) -> None:
        if self.world.leads:
            save_checkpoint(
                self.folder.checkpoints,
                self.encoder,
                self.optimiser,
                step=self.done,
                recipe_digest=digest(self.recipe),
                extra={"tokens": self.batches.windows.digest},
                keep=self.recipe.checkpoints.keep,
            )
        self.world.wait()

    def _finish(self) -> None:
        if self.world.leads:
            self.encoder.model.eval()
            save(self.encoder, self.folder.model)
            self.folder.write_result(
                self.recipe,
                steps=self.done,
                pairs=len(self.batches.windows),  # windows are what this run draws from
                scores={},
                device=str(self.world.device),
                processes=self.world.size,
            )
        self.world.wait()


def _require_numbers(step: int, report: LanguageLoss, norm: float) -> None:
    if math.isfinite(report.loss) and math.isfinite(norm):
        return
    what = "gradient" if math.isfinite(report.loss) else "loss"
    raise TrainingError(
        f"The {what} of step {step + 1} is not a number; lower optimiser.learning_rate, or set "
        "precision to float32, with a new --output."
    )


def _say(world: World, line: str) -> None:
    if world.leads:
        print(line, file=sys.stderr, flush=True)
