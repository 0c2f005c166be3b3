"""Hard negatives of a run that its own model finds, at the start and after every few epochs.

    step 0 ──▶ model ──▶ mined ──▶ run/negatives/step-0000000/ ──▶ pairs with those negatives
    2 epochs later ──▶ model as it is then ──▶ …/step-0000480/ ──▶ pairs with those

What was hard for the model of two epochs ago need not be hard now. Negatives follow from the
weights, so a run that was killed finds the same again; they are kept in the run's folder all the
same, each set whole or not at all, since a run that goes on in the middle of an epoch no longer has
the weights that found them.

One process finds them, and the others wait and read what it found.

Source: Xiong et al. (2021), ANCE, https://arxiv.org/abs/2007.00808; every two epochs and nine per
query: Coelho et al. (2024), section 2, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from cde_core.errors import TrainingError
from cde_core.model.encode import TextEncoder
from cde_core.recipe import Recipe
from cde_core.train.data.pairs import UNFINISHED
from cde_core.train.distributed import World
from cde_core.train.log import WorkBar
from cde_core.train.preparation import Say, TrainingData
from cde_core.train.rivals.groups import Numbers
from cde_core.train.rivals.judges import ModelJudge
from cde_core.train.rivals.mining import Mining, mined

FOUND, ABOUT = "answers.npy", "about.json"


class Refresh:
    """The negatives of a run as they stand; those of its data where the recipe asks for no other.

    `pairs` and `filter` are the data's with the negatives of now.
    """

    def __init__(
        self, recipe: Recipe, data: TrainingData, folder: Path, world: World, say: Say
    ) -> None:
        """Begin with the data's own negatives; `folder` is the run's for those that are found."""
        self.pairs, self.filter = data.pairs, data.filter
        self._recipe, self._data, self._folder = recipe, data, folder
        self._world, self._say = world, say

    def stretches(self, done: int) -> Iterator[range]:
        """The steps that are left, cut where negatives are found anew."""
        every, end = self._every or max(1, self._data.steps), self._data.steps
        while done < end:
            stop = min(end, (done // every + 1) * every)
            yield range(done, stop)
            done = stop

    def are_to_be_found(self, step: int) -> bool:
        """Whether the model is to find negatives before this step; the same in all processes.

        Raises:
            TrainingError: If they should have been found before, and are not there.
        """
        if not self._every or self._begun_at(step) is None:
            return False
        there = torch.tensor([float(self._world.leads and self._whole(step))])
        missing = not self._world.total(there.to(self._world.device)).item()
        if missing and step != self._begun_at(step):
            raise TrainingError(
                f"{self._place(step)} is missing or damaged: it held the negatives that the model "
                f"found after step {self._begun_at(step)}. Restore it, or begin anew with another "
                "--output."
            )
        return missing

    def find(self, step: int, encoder: TextEncoder) -> None:
        """Let the model find negatives; one process does, and the others wait."""
        failed = torch.zeros(1, device=self._world.device)
        if not self._world.leads:
            if self._world.total(failed).item():
                raise SystemExit(2)  # the first process says why
            return
        try:
            self._find(self._place(step), encoder)
        except BaseException:
            failed += 1
            raise
        finally:
            self._world.total(failed)

    def use_those_of(self, step: int) -> None:
        """Train with the negatives that were found last before a step."""
        if not self._every or self._begun_at(step) is None:
            return
        found: Numbers = np.load(self._place(step) / FOUND, mmap_mode="r").view(np.ndarray)
        self.pairs = self._data.pairs.borrowing(found)
        judge = self._data.filter
        vectors = None if judge.vectors is None else judge.vectors.borrowing(found)
        self.filter = dataclasses.replace(judge, vectors=vectors)

    @property
    def _every(self) -> int:
        """Steps from one search to the next; 0: there is none."""
        epochs = self._recipe.negatives.every_epochs
        return epochs * self._data.batches_per_epoch if epochs else 0

    def _begun_at(self, step: int) -> int | None:
        """Step before which the negatives of this step were found; None: they are the data's."""
        begun = step // self._every * self._every
        return begun if begun or self._recipe.negatives.at_start else None

    def _place(self, step: int) -> Path:
        return self._folder / f"step-{self._begun_at(step):07d}"

    def _whole(self, step: int) -> bool:
        """Whether what was found is there, of these pairs, and as it was written."""
        place = self._place(step)
        try:
            about = json.loads((place / ABOUT).read_text(encoding="utf-8"))
            found = (place / FOUND).read_bytes()
        except (OSError, ValueError):
            return False
        expected = {"pairs": self._data.pairs.digest, "sha256": hashlib.sha256(found).hexdigest()}
        return isinstance(about, dict) and expected.items() <= about.items()

    def _find(self, place: Path, encoder: TextEncoder) -> None:
        """Mine in a folder of this model's own, which is renamed when it is whole."""
        pairs, settings = self._data.pairs, self._recipe.negatives
        mining = Mining(
            negatives=settings.per_query,
            depth=settings.depth,
            choose=settings.choose,
            margin=settings.margin,
            seed=self._recipe.seed,
        )
        was_training = encoder.model.training
        prefixes = self._recipe.data.prefixes if encoder.model.config.prefixes else None
        judge = ModelJudge(encoder, prefixes=prefixes, seed=self._recipe.seed)
        working = place.with_name(f"{place.name}.{judge.fingerprint}{UNFINISHED}")
        with WorkBar(2 * len(pairs), "the model looks for negatives", self._say) as progress:
            found = mined(
                pairs,
                judge,
                mining,
                readings=working / "readings",
                answers=working,
                progress=progress,
            )
        encoder.model.train(was_training)
        self._put_in_place(working, place, found, judge.fingerprint)
        each = (found >= 0).sum() / len(pairs)
        self._say(f"the model found {each:.1f} negatives a pair among {settings.depth} documents")

    def _put_in_place(self, working: Path, place: Path, found: Numbers, fingerprint: str) -> None:
        """Negatives in the order of the pairs, what they are of, and nothing else."""
        whole = place.with_name(f"{place.name}{UNFINISHED}")
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        with (whole / FOUND).open("wb") as file:
            np.save(file, found)
            file.flush()
            os.fsync(file.fileno())
        about = {
            "pairs": self._data.pairs.digest,
            "model": fingerprint,
            "sha256": hashlib.sha256((whole / FOUND).read_bytes()).hexdigest(),
        }
        (whole / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)  # damaged
        whole.rename(place)
        for leftover in place.parent.glob(f"{place.name}.*{UNFINISHED}"):
            shutil.rmtree(leftover, ignore_errors=True)
