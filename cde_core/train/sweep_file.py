"""Sweep files: one recipe, and a grid of what its runs differ in.

    sweep.yaml ──▶ read_sweep ──▶ Sweep of Cells, each with its whole recipe ──▶ sweep.py

    about: Figure 14.
    recipe: ../paper-small-contextual-clustered.yaml
    fixed: {epochs: 1}                      # what all cells share and the recipe does not say
    grid: {batches.size: [64, 256], clusters.size: [64, 512]}
    cells: [{batches.size: 4096, clusters.size: 4096}]    # beside the grid, or in its place
    seeds: [0, 1, 2]                        # every cell so many times; tables show their mean

Every cell is checked as it is read, so that the last one of a long sweep does not fail on a
misspelt name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cde_core.errors import ConfigError, did_you_mean
from cde_core.recipe import Recipe, read_mapping, read_recipe, with_overrides, with_values
from cde_core.recipe_values import flat

KEYS = ("about", "recipe", "fixed", "grid", "cells", "seeds", "output")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep."""

    name: str
    """Its values, such as "batches.size=64,clusters.size=512"."""

    values: dict[str, Any]
    """What is its own, by dotted names."""

    recipe: Recipe
    """The whole recipe, with the folder that it writes."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Some runs of one recipe."""

    about: str
    """What it reproduces or shows."""

    output: Path
    """Folder with a folder for every cell."""

    cells: tuple[Cell, ...]
    """The runs, in order."""


def read_sweep(path: Path, *, output: Path | None = None, fields: Sequence[str] = ()) -> Sweep:
    """Read a sweep file and resolve the recipe of every cell.

    Args:
        path: The YAML file.
        output: Folder of the results; by default what the file says, or else runs/sweeps/NAME.
        fields: What a command line overrides in all cells, such as ["--data.sources", "a.jsonl"];
            what is a cell's own stays.

    Raises:
        ConfigError: If the file, its recipe or a cell cannot be used.
    """
    values = read_mapping(path)
    for key in values:
        if key not in KEYS:
            raise ConfigError(f"{path}: a sweep has no {key}.{did_you_mean(key, KEYS)}")
    if not isinstance(values.get("recipe"), str):
        raise ConfigError(f"{path} names no recipe; add a line such as `recipe: ../small.yaml`.")
    recipe = read_recipe(path.parent / values["recipe"])
    recipe = with_values(recipe, _mapping(values, "fixed", path), where=str(path))
    recipe = with_overrides(recipe, fields, prog=f"cde-train sweep {path}")
    folder = output or Path(values.get("output") or Path("runs", "sweeps", path.stem))
    cells = tuple(_cell(one, recipe, folder, str(path)) for one in _combinations(values, path))
    names = [cell.name for cell in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path} has the cell {twice[0]} twice; take one out.")
    return Sweep(str(values.get("about", "")), folder, cells)


def _mapping(values: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    found = values.get(key) or {}
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {key} is {found!r}, but wants a mapping of settings.")
    return found


def _combinations(values: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    grid = _mapping(values, "grid", path)
    cells = values.get("cells") or []
    for name, choices in grid.items():
        if not isinstance(choices, list) or not choices:
            raise ConfigError(f"{path}: grid.{name} is {choices!r}, but wants a list of values.")
    if not isinstance(cells, list) or not all(isinstance(one, dict) for one in cells):
        raise ConfigError(f"{path}: cells wants a list of mappings, such as [{{steps: 40}}].")
    if not grid and not cells:
        raise ConfigError(f"{path} has neither a grid nor cells; add one of them.")
    found = [dict(zip(grid, one, strict=True)) for one in itertools.product(*grid.values())]
    every = [*(found if grid else []), *cells]
    if not all(any(flat(one)) for one in every):
        raise ConfigError(f"{path} has a cell that sets nothing; give it a value, or take it out.")
    # Seed by seed, so that a sweep that is stopped has whole tables.
    yield from ({**cell, **seed} for seed in _seeds(values, path) for cell in every)


def _seeds(values: Mapping[str, Any], path: Path) -> list[dict[str, int]]:
    """What each repetition of the cells sets; without seeds they run once, with the recipe's."""
    seeds = values.get("seeds")
    if seeds is None:
        return [{}]
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise ConfigError(f"{path}: seeds is {seeds!r}, but wants a list of numbers, as [0, 1, 2].")
    return [{"seed": seed} for seed in seeds]


def _cell(values: dict[str, Any], recipe: Recipe, folder: Path, where: str) -> Cell:
    own = dict(flat(values))  # {batches: {size: 64}} is {batches.size: 64}
    name = _name(own)
    whole = with_values(recipe, values, where=f"{where}, cell {name}")
    return Cell(name, own, dataclasses.replace(whole, name=name, output=folder / name))


def _name(values: Mapping[str, Any]) -> str:
    """A folder's name that people can read; long ones end in a digest."""
    parts = (f"{key}={word(value)}" for key, value in values.items())
    name = re.sub(r"[^\w.,=+-]+", "-", ",".join(parts))
    if len(name) <= 120:
        return name
    return f"{name[:103]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def word(value: Any) -> str:
    """A value as it stands in names and tables."""
    if isinstance(value, list):
        return "+".join(map(word, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in ("", None) else str(value)
