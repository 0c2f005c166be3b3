"""What a report shows: every table and figure, with where its numbers come from.

    Results (records, probes, sweeps, published numbers) ──▶ Exhibit.make ──▶ DataFrame or Figure

An exhibit reads what is on disk and never runs a model. Where its numbers are missing it makes
None, and the page says "not run yet" with the command that gives them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import pandas as pd

from cde_core.errors import DataError
from cde_eval.probes.table import read_probe
from cde_eval.results import RunRecord, records_by_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # a command that prints a table need not wait for it

Section: TypeAlias = Literal["scores", "context", "clusters", "position", "geometry"]
Made: TypeAlias = "pd.DataFrame | Figure"


class Results:
    """Everything that exhibits are made from."""

    def __init__(self, folder: Path, published: Path) -> None:
        """Read a results folder, and the folder of published numbers, as they are asked for."""
        self.folder = folder
        self._published = published

    @cached_property
    def records_by_path(self) -> dict[Path, RunRecord]:
        """Every evaluation, by its file."""
        return records_by_path(self.folder)

    @cached_property
    def records(self) -> list[RunRecord]:
        """Every evaluation."""
        return list(self.records_by_path.values())

    def probe(self, name: str) -> pd.DataFrame:
        """Every row of a probe; empty where it was not run."""
        return read_probe(self.folder, name)

    @cached_property
    def sweeps(self) -> pd.DataFrame:
        """Every finished run of the sweeps in `FOLDER/sweeps`, one row each; empty without any.

        Columns are `sweep`, what the runs of a sweep differ in (`clusters.size`), what they ended
        with (`loss`, `accuracy`, `steps`) and each score by its name (`DocsNetworkX/corpus`).
        """
        paths = sorted((self.folder / "sweeps").glob("*/*/result.json"))
        return pd.DataFrame([_sweep_row(path) for path in paths])

    def published(self, name: str) -> pd.DataFrame:
        """A table of published numbers, `NAME.csv`; empty where there is none."""
        path = self._published / f"{name}.csv"
        return pd.read_csv(path, comment="#") if path.is_file() else pd.DataFrame()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A table or a figure of the report."""

    name: str
    """Of its files."""

    section: Section

    title: str

    caption: str
    """What is seen, in plain words."""

    source: str
    """What it regenerates: "CDE paper, figure 7"; "" for what is ours."""

    command: str
    """What makes its numbers."""

    make: Callable[[Results], Made | None]
    """None where there are no numbers of ours."""

    published: Callable[[Results], Made | None] = lambda results: None
    """What is shown as long as there are no numbers of ours."""

    note: Callable[[Results], str] = lambda results: ""
    """Numbers in words, below the caption; every line is a paragraph."""


def _sweep_row(path: Path) -> dict[str, object]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        ended = {name: result[name] for name in ("loss", "accuracy", "steps")}
        return {"sweep": path.parent.parent.name, **result["cell"], **ended, **result["scores"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not the result of a cell of a sweep ({error!r}); delete it, and "
            "`cde-train sweep` makes it again."
        ) from error
