"""Sweeps: one recipe, trained again for every cell of a grid.

    Sweep ──▶ run_sweep ──▶ DIR/CELL/result.json ──▶ table ──▶ DIR/sweep.csv
                  │
      one process per cell, some at once

Every cell is a run like any other, in a process of its own: it can be continued, and one that fails
takes no other with it. The same sweep on the same folder goes on where it stopped and skips what is
finished; a cell is finished when its result names the digest of the very recipe that it stands for.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cde_core.errors import ConfigError
from cde_core.recipe import digest, to_yaml
from cde_core.train.sweep_file import Cell, Sweep, read_sweep, word

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COMMAND",
    "Cell",
    "Outcome",
    "Sweep",
    "over_seeds",
    "read_sweep",
    "run_sweep",
    "table",
    "visible_gpus",
]

COMMAND = (sys.executable, "-m", "cde_core.cli", "run")
"""What trains a cell; the cell's recipe is its last argument."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell."""

    cell: Cell
    """Which one."""

    record: dict[str, Any] | None
    """Its result, or None if it failed."""

    error: str = ""
    """Why it failed, in one line."""

    skipped: bool = False
    """Whether it was finished before."""


def run_sweep(
    sweep: Sweep,
    *,
    parallel: int | None = None,
    devices: Sequence[str] = (),
    command: Sequence[str] = COMMAND,
    report: Callable[[Outcome], object] = lambda outcome: None,
) -> list[Outcome]:
    """Train every cell that is not finished, each in a process of its own.

    What a cell prints is in DIR/CELL.log. When this is interrupted, the cells that run are told to
    save and end.

    Args:
        sweep: What to run.
        parallel: Cells at once; None: one per device.
        devices: GPUs, as CUDA_VISIBLE_DEVICES names them, that cells at once share; none: cells
            see what this process sees.
        command: What trains a cell, which must write DIR/CELL/result.json.
        report: Told every outcome as it comes.

    Returns:
        The outcomes, in the order of the cells.

    Raises:
        ConfigError: If `parallel` is not positive.
    """
    at_once = parallel if parallel is not None else max(1, len(devices))
    if at_once < 1:
        raise ConfigError(f"--parallel is {at_once}; the least that works is 1.")
    sweep.output.mkdir(parents=True, exist_ok=True)
    free: queue.Queue[str] = queue.Queue()
    for device in itertools.islice(itertools.cycle(devices or [""]), at_once):
        free.put(device)
    running: set[subprocess.Popen[bytes]] = set()
    outcomes: dict[str, Outcome] = {}
    with ThreadPoolExecutor(at_once) as pool:
        futures: list[Future[Outcome]] = [
            pool.submit(_outcome, cell, free, running, tuple(command)) for cell in sweep.cells
        ]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.cell.name] = outcome
                report(outcome)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()
            raise
    return [outcomes[cell.name] for cell in sweep.cells]


def table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """A row per finished cell: what is its own, steps, loss, accuracy, scores, seconds."""
    import pandas as pd

    return pd.DataFrame([_row(outcome.record) for outcome in outcomes if outcome.record])


def over_seeds(outcomes: Sequence[Outcome]) -> pd.DataFrame | None:
    """A row per cell with the mean over its seeds, and the deviation of scores in "NAME ±".

    None where cells have no seeds of their own.
    """
    runs = table(outcomes)
    own = list(dict.fromkeys(name for outcome in outcomes for name in outcome.cell.values))
    if "seed" not in own or runs.empty:
        return None
    cells = [name for name in own if name != "seed"]
    by: Any = cells or [0] * len(runs)  # where nothing but seeds differs, all are one cell
    grouped = runs.groupby(by, sort=False, dropna=False)
    found = grouped.size().to_frame("seeds")
    for name in [name for name in runs.columns if name not in own]:
        found[name] = grouped[name].mean()
        if name not in ("steps", "seconds"):
            found[f"{name} ±"] = grouped[name].std()
    return found.reset_index(drop=not cells)


def visible_gpus() -> list[str]:
    """GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [device for device in named.split(",") if device.strip()]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def _outcome(
    cell: Cell,
    free: queue.Queue[str],
    running: set[subprocess.Popen[bytes]],
    command: tuple[str, ...],
) -> Outcome:
    finished = _result(cell)
    if finished is not None:
        return Outcome(cell, _with_cell(cell, finished), skipped=True)
    device = free.get()
    try:
        status = _train(cell, device, running, command)
    finally:
        free.put(device)
    record = _result(cell)
    if status == 0 and record is not None:
        return Outcome(cell, _with_cell(cell, record))
    return Outcome(cell, None, error=_why(cell, status))


def _train(
    cell: Cell, device: str, running: set[subprocess.Popen[bytes]], command: tuple[str, ...]
) -> int:
    """Run a cell's process to its end and return its status."""
    recipe = _beside(cell, ".yaml")
    _write(recipe, to_yaml(cell.recipe))
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": device} if device else {})}
    with _beside(cell, ".log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(recipe)], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        running.add(process)
        try:
            return process.wait()
        finally:
            running.discard(process)


def _result(cell: Cell) -> dict[str, Any] | None:
    """The record of a finished cell; None if it is not finished, or was another recipe's."""
    try:
        record = json.loads((_folder(cell) / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    fits = isinstance(record, dict) and record.get("recipe_digest") == digest(cell.recipe)
    return record if fits else None


def _with_cell(cell: Cell, record: dict[str, Any]) -> dict[str, Any]:
    """The record with what is the cell's own, on disk too."""
    whole = {**record, "cell": cell.values}
    if whole != record:
        _write(_folder(cell) / "result.json", json.dumps(whole, indent=2) + "\n")
    return whole


def _why(cell: Cell, status: int) -> str:
    """The line in which a cell says why it failed."""
    log = _beside(cell, ".log")
    lines = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").splitlines()
    said = [line.strip() for line in lines if line.strip()]
    ours = [line.removeprefix("cde-train: ") for line in said if line.startswith("cde-train: ")]
    if ours and status:
        return ours[-1]
    if not status:
        return f"it ended without a result for its recipe; see {log}."
    return f"{said[-1] if said else 'it said nothing'} (status {status}; see {log})"


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    cell = {name: word(v) if isinstance(v, list) else v for name, v in record["cell"].items()}
    measured = {name: record.get(name) for name in ("steps", "loss", "accuracy")}
    return {**cell, **measured, **(record.get("scores") or {}), "seconds": record.get("seconds")}


def _folder(cell: Cell) -> Path:
    assert cell.recipe.output is not None
    return cell.recipe.output


def _beside(cell: Cell, suffix: str) -> Path:
    folder = _folder(cell)
    return folder.with_name(folder.name + suffix)


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
