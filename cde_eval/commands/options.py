"""What several commands ask for, each thing once.

    --device --dtype --engine          ──▶ Computing    ──▶ LoadOptions
    --context --size --draws --seed    ──▶ Reading      ──▶ planned ──▶ Evaluation
    --pairs --surrogate …              ──▶ Judging      ──▶ Recipe

A command takes one as a parameter marked `FLAT`: its fields are then options among the command's
own, and the text below each is their help. A command's default may be another than the class's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from cde_eval.commands.devices import device_named

if TYPE_CHECKING:
    from cde_core.recipe import Recipe
    from cde_eval.encoders import LoadOptions
    from cde_eval.plan import Evaluation
    from cde_eval.tasks.catalogue import TaskSource

FLAT = tyro.conf.arg(name="")


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Where models compute, and how precisely."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the model; vectors are always float32."""

    def options(self) -> LoadOptions:
        """The same for whoever loads a model.

        Raises:
            CdeError: If there is no such device.
        """
        from cde_eval.encoders import LoadOptions

        return LoadOptions(device=device_named(self.device), dtype=self.dtype)


@dataclass(frozen=True, kw_only=True)
class Computing(Loading):
    """The same, and on which machines."""

    engine: str = "here"
    """Where to embed and search: here, ray, or ray:ADDRESS of a cluster."""

    def options(self) -> LoadOptions:
        """The same for whoever loads a model.

        Raises:
            CdeError: If there is no such device.
        """
        return replace(super().options(), engine=self.engine)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What contextual models read first, and how often it is drawn."""

    context: tuple[str, ...] = ("corpus",)
    """What contextual models read first: corpus, random, none, task:NAME, file:PATH."""

    size: int | None = None
    """Documents to read; by default as many as the model reads by itself."""

    draws: int = 1
    """Samples to draw per task and context; a score is their mean, with its spread."""

    seed: int = 42
    """Seed of the first draw."""


def planned(
    models: Sequence[str],
    tasks: Sequence[TaskSource],
    reading: Reading,
    computing: Loading,
    *,
    data: Sequence[Path] = (),
    **others: Any,
) -> Evaluation:
    """The plan that the words of a command line ask for.

    Args:
        models: As after `--model`.
        tasks: What was found for the words after `--tasks` and the like.
        reading: Contexts and draws.
        computing: How models are loaded.
        data: Folders in which tasks that lend their documents are looked for first.
        others: Fields of `Evaluation` that only some commands ask for.

    Raises:
        ConfigError: If there is no model, no draw, or no such context.
        TaskError: If a context names a task that is not known.
        CdeError: If there is no such device.
    """
    from cde_eval.contexts import ContextPolicy
    from cde_eval.plan import Evaluation, tasks_that_lend

    contexts = dict.fromkeys(reading.context)
    policies = tuple(ContextPolicy(one, reading.size, reading.seed) for one in contexts)
    return Evaluation(
        models=tuple(dict.fromkeys(models)),
        tasks=tuple(tasks),
        policies=policies,
        draws=reading.draws,
        options=computing.options(),
        task_lookup=tasks_that_lend(policies, data),
        **others,
    )


@dataclass(frozen=True, kw_only=True)
class Judging:
    """Training pairs, and what judges them."""

    pairs: tuple[str, ...] = ("docs",)
    """Pairs as `cde-train` names them: docs, files, folders, hub:ORG/NAME."""

    surrogate: str = "minilm"
    """What says how alike texts are: minilm, tfidf, a folder, encoder:NAME."""

    surrogate_length: int = 0
    """Tokens that it reads of a text; 0: as many as it can, and at most 512."""

    most_per_source: int = 0
    """Pairs read of every source, from its beginning; 0: all."""

    device: str = "auto"
    """Where the surrogate computes: auto, cpu, cuda, cuda:1, mps."""

    def recipe(self) -> Recipe:
        """A recipe of which only pairs and surrogate matter."""
        from cde_core.recipe import ClusterConfig, DataConfig, Recipe

        return Recipe(
            device=self.device,
            data=DataConfig(sources=self.pairs, most_per_source=self.most_per_source),
            clusters=ClusterConfig(
                surrogate=self.surrogate, surrogate_length=self.surrogate_length
            ),
        )


COMPUTING, LOADING, READING, JUDGING = Computing(), Loading(), Reading(), Judging()
"""What a command does where nothing else is said."""
