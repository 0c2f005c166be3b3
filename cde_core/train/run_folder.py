"""The folder of a run: whose it is, where things stand in it, and what it says at the end.

    recipe.yaml       everything that decided it          metrics.jsonl   a line per step
    checkpoints/      the last ones, to continue from     model/          what came out
    result.json       the end: losses, scores, versions
    negatives/        those that the model found itself, where the recipe asks for them

A folder belongs to one recipe. The same recipe finds its run there and goes on; another is told
what differs, and a folder of something else is left alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from cde_core.errors import ConfigError
from cde_core.locks import the_only_process
from cde_core.recipe import Recipe, differences, digest, read_recipe, to_yaml
from cde_core.train.distributed import World

LOCK = ".lock"
LAST_STEPS = 20
"""Steps over which the final loss and accuracy are averaged."""

NO_RESULT = {"step", "ignored", "gradient_norm", "learning_rate", "seconds"}
"""What of a step is no sign of what was learnt."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run keeps everything."""

    path: Path
    """Its root."""

    @property
    def model(self) -> Path:
        """The model that came out, once the run is finished."""
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        """The last checkpoints."""
        return self.path / "checkpoints"

    @property
    def negatives(self) -> Path:
        """Hard negatives that the model in training found, a folder for each time."""
        return self.path / "negatives"

    def metrics(self, rank: int = 0) -> Path:
        """The log of a process; the first one's is the run's."""
        return self.path / (f"metrics.jsonl.{rank}" if rank else "metrics.jsonl")

    @contextmanager
    def entered(self, recipe: Recipe, world: World) -> Iterator[None]:
        """Make the folder, or enter it, and keep other runs out until the end.

        Raises:
            ConfigError: If it cannot be made, holds another recipe's run or something else, or is
                another process's at the moment.
        """
        if self._recipe.is_file():
            other = read_recipe(self._recipe)
            if digest(other) != digest(recipe):
                raise ConfigError(
                    f"{self.path} holds a run of another recipe "
                    f"({'; '.join(differences(other, recipe))}). Name another --output, or go on "
                    f"with that run: cde-train {self.path}."
                )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self._recipe.is_file() and {p.name for p in self.path.iterdir()} - {LOCK}:
                raise ConfigError(
                    f"{self.path} is not empty and holds no run; name another --output."
                )
            world.wait()
            if not world.leads:
                yield
                return
            busy = f"Another process is training in {self.path}; wait for it, or stop it."
            with the_only_process(self.path / LOCK, busy):
                yield
        except OSError as error:
            if error.filename is None or Path(error.filename) not in (self.path, self.path / LOCK):
                raise
            raise ConfigError(
                f"{self.path} cannot be the folder of a run ({error.strerror}); name another "
                "--output."
            ) from None

    def write_recipe(self, recipe: Recipe) -> None:
        """Say whose run this is, once there is a run."""
        _write(self._recipe, to_yaml(recipe))

    def is_finished(self, recipe: Recipe) -> bool:
        """Whether this recipe's run has come to its end here."""
        try:
            result = json.loads(self._result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(result.get("recipe_digest") == digest(recipe))

    def write_result(
        self,
        recipe: Recipe,
        *,
        steps: int,
        pairs: int,
        scores: Mapping[str, float],
        device: str,
        processes: int,
    ) -> None:
        """Say how the run ended; from then on it is finished.

        Args:
            recipe: Of the run.
            steps: Steps done.
            pairs: Pairs that it drew from.
            scores: Of the last evaluation.
            device: Where it computed.
            processes: How many computed it.
        """
        lines = self.metrics().read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if "loss" in row]
        last = rows[-LAST_STEPS:]
        result = {
            "name": recipe.name,
            "recipe_digest": digest(recipe),
            "steps": steps,
            "pairs": pairs,
            **_means(last),
            "scores": dict(scores),
            "seconds": sum(row["seconds"] for row in rows),
            "device": device,
            "processes": processes,
            "versions": {"torch": torch.__version__, "python": sys.version.split()[0]},
        }
        _write(self._result, json.dumps(result, indent=2) + "\n")

    @property
    def _recipe(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def _result(self) -> Path:
        return self.path / "result.json"


def _means(rows: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """The loss and what else the objective tells, each over the steps that have it.

    Without a step in the log, as where a finished run's was removed, nothing is told.
    """
    means: dict[str, float | None] = {}
    for name in rows[-1] if rows else ():
        if name not in NO_RESULT:
            known = [value for row in rows if (value := row.get(name)) is not None]
            means[name] = sum(known) / len(known) if known else None
    return means


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
