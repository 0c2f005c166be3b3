"""What a run says while it trains: a line per step in a file, and progress on the terminal.

    step, values ──▶ MetricsLog  ──▶ metrics.jsonl (and TensorBoard)
                 └─▶ TrainingBar ──▶ stderr

metrics.jsonl is part of what a run produced, so a run that was killed and resumed leaves the same
file as one that was not: what was logged after the checkpoint is dropped when the log is opened
again, and the resumed run writes it anew. JSON has no NaN and no infinity; both are written as
null.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from cde_core.errors import ConfigError, DataError

PLAIN_LINES = 20
"""Lines of progress in a run whose stderr is not a terminal."""

SECONDS_BETWEEN_LINES = 10.0
"""The same for what comes before a run."""


class MetricsLog:
    """metrics.jsonl: one JSON object per step."""

    def __init__(self, path: Path, *, after_step: int = 0, tensorboard: bool = False) -> None:
        """Open a log to be written after a step.

        Args:
            path: The file; its folder is made if need be. TensorBoard's files go to `tensorboard`
                beside it.
            after_step: Step of the checkpoint that the run goes on from; lines of later steps are
                dropped, and so is a last line that a killed run left unfinished. 0: a new run,
                whose first step is 1; -1 drops even lines of step 0.
            tensorboard: Whether to write for TensorBoard too.

        Raises:
            ConfigError: If TensorBoard is wanted and not installed.
            DataError: If a line that is not the last is broken.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._board = (
            _summary_writer(path.parent / "tensorboard", after_step) if tensorboard else None
        )
        _drop_lines_beyond(path, after_step)
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Add a line: the step and its values, numbers or whatever else JSON can hold.

        TensorBoard gets the numbers; those of `{"scores": {"a": 1}}` under "scores/a".
        """
        row = {"step": step, **_without_nan(values)}
        self._file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _numbers(values):
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TrainingBar:
    """Progress of a run on stderr: a bar on a terminal, elsewhere a plain line now and then."""

    def __init__(
        self, steps: int, *, done: int = 0, file: TextIO | None = None, unit: str = "pairs"
    ) -> None:
        """Show a run of `steps` steps, of which `done` were done before; a batch is of `unit`."""
        self._steps, self._unit = steps, unit
        self._file = sys.stderr if file is None else file
        self._bar = _bar(steps, done, self._file) if self._file.isatty() else None

    def update(
        self, step: int, *, loss: float, shares: Mapping[str, float], pairs_per_second: float
    ) -> None:
        """Say how a step went.

        Args:
            step: Steps done, this one included.
            loss: Of this step's batch.
            shares: What else to show, from 0 to 1, such as {"accuracy": 0.5}.
            pairs_per_second: Speed.
        """
        parts = [f"loss {loss:.4f}", *(f"{name} {share:.1%}" for name, share in shares.items())]
        said = " · ".join([*parts, f"{pairs_per_second:,.0f} {self._unit}/s"])
        if self._bar is not None:
            self._bar.set_postfix_str(said, refresh=False)
            self._bar.update(step - self._bar.n)
        elif step % max(1, self._steps // PLAIN_LINES) == 0 or step == self._steps:
            self.say(f"step {step:,} of {self._steps:,} · {said}")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.write(line, file=self._file)
        else:
            print(line, file=self._file, flush=True)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> TrainingBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WorkBar:
    """Progress of what comes before a run: a bar on a terminal, elsewhere a line now and then."""

    def __init__(self, total: int, what: str, say: Callable[[str], object]) -> None:
        """Show work of `total` parts; 0: nobody knows how many."""
        self._total, self._what, self._say = total, what, say
        self._done, self._said = 0, time.monotonic()
        on_terminal = sys.stderr.isatty()
        self._bar = (
            _bar(total or None, 0, sys.stderr, what, " texts", delay=2) if on_terminal else None
        )

    def __call__(self, more: int) -> None:
        """Say that `more` parts are done."""
        self._done += more
        if self._bar is not None:
            self._bar.update(more)
        elif time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            of = f" of {self._total:,}" if self._total else ""
            self._say(f"{self._what}: {self._done:,}{of}")

    def __enter__(self) -> WorkBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar(
    steps: int | None,
    done: int,
    file: TextIO,
    what: str = "training",
    unit: str = " steps",
    delay: int = 0,
) -> Any:
    """A bar of tqdm; None where it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=steps, initial=done, desc=what, unit=unit, file=file, delay=delay)


def _summary_writer(folder: Path, after_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "tensorboard is on, but TensorBoard is not installed; install the extra `tensorboard`, "
            "or turn it off: the same numbers are in metrics.jsonl."
        ) from None
    return SummaryWriter(str(folder), purge_step=after_step + 1)


def _without_nan(value: Any) -> Any:
    """The value with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return value


def _numbers(values: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{within}{name}/")
        elif isinstance(value, int | float):
            yield f"{within}{name}", value


def _drop_lines_beyond(path: Path, step: int) -> None:
    """Keep the lines up to `step`; the file is whole at every moment."""
    if not path.exists():
        return
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.writelines(_lines_up_to(step, path))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _lines_up_to(step: int, path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            logged = _step_of(line)
            if logged is None and file.read(1):
                raise DataError(
                    f"{path}, line {number}: not a JSON object with a step, so the log cannot be "
                    "continued; mend the line, or move the file away."
                )
            if logged is not None and logged <= step:
                yield line.removesuffix(b"\n") + b"\n"


def _step_of(line: bytes) -> int | None:
    """Step of a line; None if the line is broken."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) else None
