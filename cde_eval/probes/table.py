"""What a probe finds, row by row, in a file that a killed run continues.

    probe ──add(rows of a cell)──▶ OUTPUT/probes/PROBE/MODEL-HASH.csv     read_probe ──▶ figures
                                   OUTPUT/probes/PROBE/MODEL-HASH.json    what it was run on

A probe goes through cells (a task, a policy, a draw) and a cell's rows are written as soon as they
are found. The hash is of everything that decides them: model, revision, data, parameters. So the
same command continues, and another experiment has another file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from cde_core.errors import DataError
from cde_eval.results import commit, file_name, installed_versions, write_atomically


class ProbeTable:
    """The rows of one probe on one model, with these parameters."""

    def __init__(
        self, output: Path, probe: str, about: Mapping[str, Any], *, cell: Sequence[str]
    ) -> None:
        """Begin the table, or continue it.

        Args:
            output: Results folder.
            probe: Name of the probe.
            about: Everything that decides the rows; `model`, `model_name` and `revision` at least.
            cell: Columns that tell cells apart.

        Raises:
            DataError: If there is a file and it is not such a table.
        """
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:8]
        stem = f"{file_name(str(about['model']))}-{digest}"
        self.path = output / "probes" / probe / f"{stem}.csv"
        self._about = dict(about)
        self._cell = list(cell)
        self._rows: list[dict[str, Any]] = []
        self._done: set[tuple[str, ...]] = set()
        if self.path.is_file():
            self._rows = _read(self.path).to_dict("records")
            self._done = {self._key(row) for row in self._rows}

    def has(self, **cell: Any) -> bool:
        """Whether a cell has been run."""
        return self._key(cell) in self._done

    def add(self, rows: Sequence[Mapping[str, Any]], **cell: Any) -> None:
        """Write the rows of a cell; they get its columns."""
        self._rows += [{**cell, **row} for row in rows]
        self._done.add(self._key(cell))
        made_with = {
            "versions": installed_versions(),
            "commit": commit(),
            "written": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        about = json.dumps({**self._about, **made_with}, indent=1, sort_keys=True)
        write_atomically(self.path.with_suffix(".json"), about + "\n")
        write_atomically(self.path, pd.DataFrame(self._rows).to_csv(index=False))

    @property
    def frame(self) -> pd.DataFrame:
        """All rows found so far."""
        return pd.DataFrame(self._rows)

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[column]) for column in self._cell)


def read_probe(output: Path, probe: str) -> pd.DataFrame:
    """All rows of a probe, each with what its table says of itself (`model`, `revision`, …).

    Returns:
        The rows of a table written later come later; `table` tells tables apart. An empty frame
        where the probe was not run.

    Raises:
        DataError: If a file is not such a table.
    """
    found: list[tuple[str, pd.DataFrame]] = []
    for path in sorted((output / "probes" / probe).glob("*.csv")):
        about_path = path.with_suffix(".json")
        try:
            about = json.loads(about_path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path} has no readable {about_path.name} beside it; delete it, and the probe "
                "that made it makes it again."
            ) from error
        frame = _read(path)
        plain = {k: v for k, v in about.items() if isinstance(v, str | int | float)}
        frame = frame.assign(**{k: v for k, v in plain.items() if k not in frame.columns})
        found.append((str(about.get("written", "")), frame.assign(table=path.stem)))
    frames = [frame for _, frame in sorted(found, key=itemgetter(0))]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (ValueError, pd.errors.ParserError) as error:
        raise DataError(
            f"{path} is not a table of a probe ({error}); delete it, and the probe that made it "
            "makes it again."
        ) from error
