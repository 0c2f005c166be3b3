"""Save a run so that it goes on exactly where it was, whatever stops it and whenever.

    encoder, optimiser, step ──▶ save_checkpoint ──▶ checkpoints/step-0000400
                                                         │
    encoder, optimiser ◀── Checkpoint.restore ◀── newest_checkpoint

A checkpoint is a model in our ordinary format, so its folder can be evaluated as it is, with two
files more: optimiser.safetensors (AdamW's moments by parameter name) and state.json (step, recipe,
whatever else the trainer needs, and a checksum of every file, itself included). Where the objective
has layers of its own, objective.safetensors holds them.

A folder is written under a name that nobody reads, forced to the disk, and renamed: a checkpoint is
there whole or not at all. What a disk damages afterwards is found by the checksums; then the
checkpoint before is used, and said.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cde_core.errors import ModelError, TrainingError
from cde_core.model.checkpoint import save
from cde_core.model.encode import TextEncoder
from cde_core.model.hub import read_tensors
from cde_core.model.weight_names import require_same_names
from cde_core.train.optimiser import memory_of, restore_memory

FORMAT = "cde_core training checkpoint 1"
OPTIMISER, STATE, OBJECTIVE = "optimiser.safetensors", "state.json", "objective.safetensors"
REPLACED, UNFINISHED = ".replaced", ".unfinished"
NAME = re.compile(rf"step-(\d+)({re.escape(REPLACED)})?")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run as it was after a step; its files match their checksums."""

    path: Path
    """A model folder that can be loaded and evaluated as it is."""

    step: int
    """Steps done."""

    recipe_digest: str
    """Of the recipe that the run follows."""

    extra: Mapping[str, Any]
    """What the trainer kept beside."""

    def restore(
        self,
        encoder: TextEncoder,
        optimiser: torch.optim.Optimizer,
        objective: nn.Module | None = None,
    ) -> None:
        """Give a model, its optimiser and its objective's layers the state they had, bit for bit.

        Weights are written into the model's own tensors, which the optimiser refers to; learning
        rates and other settings of the optimiser stay as they are.

        Raises:
            ModelError: If the checkpoint is of another model, or of an optimiser that trains
                parameters which this one does not.
        """
        _fill_in_place(encoder.model, read_tensors(self.path), where=str(self.path))
        if objective is not None and objective.state_dict():
            layers = self.path / OBJECTIVE
            _fill_in_place(objective, _read_tensors(layers), where=str(layers))
        file = self.path / OPTIMISER
        restore_memory(
            optimiser, encoder.model, _read_tensors(file), where=str(file), objective=objective
        )


def save_checkpoint(
    folder: Path,
    encoder: TextEncoder,
    optimiser: torch.optim.Optimizer,
    *,
    step: int,
    recipe_digest: str,
    extra: Mapping[str, Any],
    keep: int,
    objective: nn.Module | None = None,
) -> Path:
    """Write a checkpoint, then remove older ones and what killed runs left unfinished.

    Args:
        folder: Where the checkpoints of the run stand.
        encoder: The model and its tokenizer.
        optimiser: Of this model.
        step: Steps done; a checkpoint of the same step is replaced.
        recipe_digest: Of the recipe that the run follows.
        extra: Whatever else JSON can hold.
        keep: Checkpoints to keep, this one included; never fewer than this one.
        objective: Its layers are kept too, where it has any.

    Raises:
        TrainingError: If it cannot be written; nothing is left of it then.
    """
    final = folder / f"step-{step:07d}"
    unfinished = final.with_name(final.name + UNFINISHED)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_way(unfinished)
        save(encoder, unfinished)
        save_file(memory_of(optimiser, encoder.model, objective), unfinished / OPTIMISER)
        layers = objective.state_dict() if objective is not None else {}
        if layers:
            save_file({n: t.cpu().contiguous() for n, t in layers.items()}, unfinished / OBJECTIVE)
        _write_state(unfinished, step=step, recipe_digest=recipe_digest, extra=dict(extra))
        _force_to_disk(*unfinished.iterdir(), unfinished)
        _put_in_place(unfinished, final)
        _force_to_disk(folder)
    except (OSError, SafetensorError, ModelError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise TrainingError(
            f"The checkpoint of step {step} cannot be written to {folder} "
            f"({error.__cause__ or error}); make room there and repeat the command, which goes on "
            "from the checkpoint before."
        ) from error
    _tidy(folder, final, keep)
    return final


def newest_checkpoint(folder: Path, *, warn: Callable[[str], object]) -> Checkpoint | None:
    """The newest checkpoint whose files match their checksums; None if there is none.

    Args:
        folder: Where the checkpoints of the run stand; need not exist.
        warn: Told of every damaged checkpoint that would have been newer, in a line each: what is
            wrong with which file, and what is used instead.
    """
    found, damaged = None, []
    for path in _checkpoints(folder):
        try:
            found = _read(path)
            break
        except _Damaged as damage:
            damaged.append(str(damage))
    instead = f"using {found.path.name} instead" if found else "there is no other, so none is used"
    for what in damaged:
        warn(f"{what}; {instead}.")
    return found


class _Damaged(Exception):
    """Which file of a checkpoint is not what was written, and how."""


def _checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, newest first; one that is being replaced counts as older than the new."""
    names = [path for path in folder.glob("step-*") if NAME.fullmatch(path.name)]
    return sorted(names, key=lambda path: (-_step(path), path.name))


def _step(path: Path) -> int:
    match = NAME.fullmatch(path.name)
    assert match
    return int(match[1])


def _read(path: Path) -> Checkpoint:
    state = _read_state(path / STATE)
    for name, expected in state["files"].items():
        try:
            found = _checksum(path / name)
        except OSError as error:
            raise _Damaged(f"{path / name} cannot be read ({error.strerror})") from None
        if found != expected:
            raise _Damaged(f"{path / name} is damaged: its checksum is not the one written down")
    return Checkpoint(path, state["step"], state["recipe_digest"], state["extra"])


def _read_state(file: Path) -> dict[str, Any]:
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        expected, kind = state.pop("sha256"), state["format"]
    except OSError as error:
        raise _Damaged(f"{file} cannot be read ({error.strerror})") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _Damaged(f"{file} is damaged: it is not a checkpoint's description") from None
    if _checksum_of(state) != expected:
        raise _Damaged(f"{file} is damaged: its checksum is not the one written down")
    if kind != FORMAT:
        raise _Damaged(f"{file} is of the format {kind!r}, which is not {FORMAT!r}")
    return dict(state)


def _write_state(folder: Path, **fields: Any) -> None:
    files = {path.name: _checksum(path) for path in sorted(folder.iterdir())}
    # As it will be read: JSON turns tuples into lists and numbers that are keys into text.
    state = json.loads(json.dumps({"format": FORMAT, **fields, "files": files}))
    text = json.dumps({**state, "sha256": _checksum_of(state)}, indent=2, ensure_ascii=False)
    (folder / STATE).write_text(text + "\n", encoding="utf-8")


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _checksum_of(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _force_to_disk(*places: Path) -> None:
    for place in places:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _put_in_place(unfinished: Path, final: Path) -> None:
    """Rename a folder; one that has the name already is a checkpoint until the new one is."""
    if final.exists():
        replaced = final.with_name(final.name + REPLACED)
        _make_way(replaced)
        final.rename(replaced)
    unfinished.rename(final)


def _tidy(folder: Path, newest: Path, keep: int) -> None:
    """Remove what is beyond the newest `keep`; a leftover that cannot be removed does no harm."""
    older = [p for p in _checkpoints(folder) if _step(p) < _step(newest)]
    replaced = [p for p in folder.glob(f"step-*{REPLACED}") if p.with_suffix("").exists()]
    leftovers = folder.glob(f"step-*{UNFINISHED}")
    for path in [*older[max(1, keep) - 1 :], *replaced, *leftovers]:
        with contextlib.suppress(OSError):
            _make_way(path)


def _make_way(path: Path) -> None:
    """Remove a folder if it is there, under a name that nobody reads while it is half removed."""
    going = path if path.suffix == UNFINISHED else path.with_name(path.name + UNFINISHED)
    if going.exists():
        shutil.rmtree(going)
    if path.exists():
        path.rename(going)
        shutil.rmtree(going)


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file} cannot be read: {error}.") from None


@torch.no_grad()
def _fill_in_place(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str) -> None:
    weights = model.state_dict()  # refers to the model's own memory
    require_same_names(tensors, weights, where=where)
    for name, tensor in tensors.items():
        if tensor.shape != weights[name].shape:
            raise ModelError(
                f"{where}: {name} has shape {tuple(tensor.shape)}, but the model's is "
                f"{tuple(weights[name].shape)}; go on with the recipe that it was made with."
            )
    for name, tensor in tensors.items():
        weights[name].copy_(tensor)
