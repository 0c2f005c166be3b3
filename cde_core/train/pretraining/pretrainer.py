"""A run of pre-training: what a batch is where a T5 fills in spans.

    recipe ──▶ windows ──▶ T5 with its decoder ──▶ LanguageRun: examples ──▶ language_gradient
                                                     └──────── loop.py does the rest

The model is saved with its decoder and its words, and the recipe of the next stage names its folder
as the backbone.

Source: Raffel et al. (2020), https://arxiv.org/abs/1910.10683; Coelho et al. (2024), section 3.2,
https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from cde_core.errors import ConfigError
from cde_core.model.sentinels import sentinels_of
from cde_core.model.t5 import T5
from cde_core.recipe import Recipe
from cde_core.train.distributed import World
from cde_core.train.gradients import BatchLoss
from cde_core.train.log import WorkBar
from cde_core.train.loop import Loop, finish_run
from cde_core.train.optimiser import make_optimiser
from cde_core.train.preparation import training_cache
from cde_core.train.pretraining.language_batches import Example, LanguageBatches
from cde_core.train.pretraining.language_loss import language_gradient
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
    if recipe.evaluation.every:
        raise ConfigError(
            "evaluation.every is set, but a T5 that fills in spans is scored by its loss alone; "
            "set it to 0."
        )
    return finish_run(recipe, LanguageRun)


class LanguageRun(Loop[Sequence[Example]]):
    """A run on texts with gaps, at the step where it stands."""

    unit = "texts"

    def __init__(self, recipe: Recipe, folder: RunFolder, world: World) -> None:
        super().__init__(recipe, folder, world)
        self.encoder = starting_language_model(recipe.model, seed=recipe.seed)
        self.encoder.model.to(world.device)
        backbone = self.encoder.model.backbone
        assert isinstance(backbone, T5)
        self.model = backbone
        self.data = self._prepare()
        self.steps, self.examples = self.data.steps, len(self.data.windows)
        self.content = {"tokens": self.data.windows.digest}
        chosen = recipe.optimiser
        self.optimiser = make_optimiser(
            self.encoder.model,
            learning_rate=chosen.learning_rate,
            weight_decay=chosen.weight_decay,
            betas=chosen.betas,
            epsilon=chosen.epsilon,
            freeze=recipe.model.freeze,
        )
        self.begin()

    def batches(self) -> Iterator[Sequence[Example]]:
        """This process's share of the batches that are left."""
        own = self.world.share(self.recipe.batches.size)
        return (self.data.examples(step, own) for step in range(self.done, self.steps))

    def gradient(self, batch: Sequence[Example]) -> BatchLoss:
        """Add a batch's gradient to every parameter's."""
        report = language_gradient(
            self.model,
            batch,
            tokens_at_once=self.recipe.batches.tokens_at_once,
            precision=getattr(torch, self.recipe.precision),
            world=self.world,
        )
        return BatchLoss(report.loss, {"accuracy": report.accuracy, "words": report.words})

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
        with WorkBar(0, "texts read", self.say) as progress:
            windows = prepare_windows(
                self.recipe.data, tokenizer, size=size, cache=training_cache(), progress=progress
            )
        tokenizer.enable_truncation(self.encoder.reader.max_length)
        self.say(f"{len(windows.tokens):,} tokens, {len(windows):,} windows of {size:,}")
        if windows.bad_rows:
            self.say(f"{windows.bad_rows:,} bad rows skipped")
        return LanguageBatches(windows, frame, sentinels, self.recipe)
