"""Recipes: read from YAML, overridden by the command line, saved, compared.

    small.yaml ─ extends ─▶ variant.yaml ──▶ read_recipe ──▶ with_overrides ──▶ Recipe
                                                                                  │
                              recipe.yaml, beside what the run makes ◀── to_yaml ─┘

A variant says `extends: small.yaml` and only what differs. A key that no field has, or a value of
the wrong type, is answered with the file that has it, the dotted name and what would be right.
`digest` tells runs apart by what decides their weights, so a started run is never continued as
another one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cde_core.command_line import mistakes_in_one_line
from cde_core.errors import ConfigError, did_you_mean
from cde_core.recipe_config import Recipe
from cde_core.recipe_values import flat, merged, plain, require_known, shown, validated
from cde_core.settings.batches import BatchConfig, ClusterConfig, FilterConfig, NegativesConfig
from cde_core.settings.data import DataConfig
from cde_core.settings.loss import LossConfig, SpansConfig
from cde_core.settings.model import ModelConfig, ScratchConfig
from cde_core.settings.training import CheckpointConfig, EvaluationConfig, OptimiserConfig

__all__ = [
    "BatchConfig",
    "CheckpointConfig",
    "ClusterConfig",
    "DataConfig",
    "EvaluationConfig",
    "FilterConfig",
    "LossConfig",
    "ModelConfig",
    "NegativesConfig",
    "OptimiserConfig",
    "Recipe",
    "ScratchConfig",
    "SpansConfig",
    "differences",
    "digest",
    "read_mapping",
    "read_recipe",
    "to_yaml",
    "with_overrides",
    "with_values",
]

INDIFFERENT = (
    "name",
    "about",
    "output",
    "device",
    "checkpoints",
    "evaluation",
    "tensorboard",
)
"""Fields that do not decide the weights."""

ADDED = (
    *("task", "spans.share", "spans.mean_length", "optimiser.final_learning_rate"),
    *("model.characters_per_token", "model.pooling", "model.positions", "data.twice"),
    *("loss.objective", "loss.dimensions", "loss.dimension_weights", "loss.labels"),
    *("loss.contrastive_weight", "loss.teacher_temperature"),
    *(f"model.scratch.{field.name}" for field in dataclasses.fields(ScratchConfig)),
    *(f"negatives.{field.name}" for field in dataclasses.fields(NegativesConfig)),
)
"""Fields that came after runs were made: where they are as by default, they are not in a digest, so
that such runs are still what they were."""

SHORT = {"--skip-bad-rows": "--data.skip-bad-rows"}
"""Options that may be written without their section."""


def read_recipe(path: Path) -> Recipe:
    """Read a recipe and those that it extends.

    Args:
        path: A YAML file; `extends` in it is relative to its own folder.

    Raises:
        ConfigError: If a file is not there or not YAML, extends itself, has an unknown key, or a
            value cannot be used.
    """
    layers = _layers(path)
    values: dict[str, Any] = {}
    for _, layer in reversed(layers):
        # What a recipe is called, and what it says of itself, is not what its variants are.
        inherited = {name: v for name, v in values.items() if name not in ("name", "about")}
        values = merged(inherited, layer)
    values.setdefault("name", path.stem)
    return validated(values, where=lambda dotted: _file_that_has(dotted, layers))


def with_values(recipe: Recipe, values: Mapping[str, Any], *, where: str) -> Recipe:
    """A recipe with some fields replaced, by dotted names such as "batches.size".

    Args:
        recipe: Where all other fields come from.
        values: New values, as they would stand in YAML; a mapping is merged into its section.
        where: What an error message says the values are from.

    Raises:
        ConfigError: If there is no such field, or a value cannot be used.
    """
    nested: dict[str, Any] = {}
    for dotted, value in values.items():
        *sections, name = dotted.split(".")
        nested = merged(
            nested, functools.reduce(lambda v, s: {s: v}, sections[::-1], {name: value})
        )
    require_known(nested, Recipe, where)
    return validated(merged(plain(recipe), nested), where=lambda dotted: where)


def with_overrides(recipe: Recipe, args: Sequence[str], prog: str) -> Recipe:
    """A recipe with the fields that a command line names replaced.

    Args:
        recipe: The defaults, which `--help` shows.
        args: Such as ["--steps", "40", "--batches.size", "64"].
        prog: The command, as help and mistakes show it.

    Raises:
        ConfigError: If there is no such field, or a value cannot be used.
        SystemExit: After `--help`.
    """
    import tyro

    with mistakes_in_one_line():
        return tyro.cli(
            Recipe,
            default=recipe,
            args=[SHORT.get(argument, argument) for argument in args],
            prog=prog,
            description="Train this recipe. Every field below can be overridden; what is shown is "
            "what the recipe says.",
            config=(tyro.conf.HelptextFromCommentsOff,),
        )


def to_yaml(recipe: Recipe) -> str:
    """Everything a recipe says, defaults included, as `read_recipe` reads it."""
    import yaml

    text: str = yaml.safe_dump(plain(recipe), sort_keys=False, allow_unicode=True, width=100)
    return text


def digest(recipe: Recipe) -> str:
    """A name for everything that decides the weights.

    Where a run writes, when it saves and what it is scored on change nothing; neither do the
    device, `name` and `about`.
    """
    values = {name: v for name, v in plain(recipe).items() if name not in INDIFFERENT}
    _leave_out(values, {name: v for name, v in flat(plain(Recipe())) if name in ADDED})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]


def _leave_out(values: dict[str, Any], defaults: Mapping[str, Any], before: str = "") -> None:
    """Take fields out of nested values where they are as by default, and sections left empty."""
    for name, value in list(values.items()):
        if isinstance(value, dict):
            _leave_out(value, defaults, f"{before}{name}.")
            if not value and any(added.startswith(f"{before}{name}.") for added in defaults):
                del values[name]
        elif f"{before}{name}" in defaults and value == defaults[f"{before}{name}"]:
            del values[name]


def differences(a: Recipe, b: Recipe) -> list[str]:
    """What decides the weights and is not the same, such as "batches.size: 256 there, 512 here"."""
    there, here = ({name: shown(value) for name, value in flat(plain(recipe))} for recipe in (a, b))
    return [
        f"{name}: {there.get(name, 'nothing')} there, {here.get(name, 'nothing')} here"
        for name in dict.fromkeys([*there, *here])
        if there.get(name) != here.get(name) and name.split(".")[0] not in INDIFFERENT
    ]


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds.

    Raises:
        ConfigError: If the file is not there, not YAML, or holds something else.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        found = yaml.safe_load(text)
    except (FileNotFoundError, NotADirectoryError):
        near = [other.name for other in path.parent.glob("*.yaml")]
        raise ConfigError(
            f"There is no file {path}.{did_you_mean(path.name, near, most=1)}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError(f"{path} holds no settings; a recipe is lines such as `steps: 40`.")
    twice = _set_twice(yaml.compose(text, Loader=yaml.SafeLoader))
    if twice:
        raise ConfigError(f"{path} sets {twice}; keep one of them.")
    return found


def _set_twice(node: Any) -> str:
    """What a YAML mapping sets twice, of which the format would silently keep the last; or ""."""
    if not isinstance(node.value, list):
        return ""
    seen: dict[str, int] = {}
    inside = node.value
    if node.tag == "tag:yaml.org,2002:map":
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                return f"{key.value} twice, in lines {seen[key.value]} and {line}"
            seen[key.value] = line
        inside = [value for _, value in node.value]
    return next(filter(None, map(_set_twice, inside)), "")


def _layers(path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The file's own settings, then those of the file that it extends, and so on."""
    layers: list[tuple[Path, dict[str, Any]]] = []
    following: Path | None = path
    while following is not None:
        if any(following.resolve() == seen.resolve() for seen, _ in layers):
            chain = " → ".join(str(seen) for seen, _ in [*layers, (following, {})])
            raise ConfigError(f"{path} extends itself: {chain}. Remove one `extends`.")
        values = read_mapping(following)
        parent = values.pop("extends", None)
        if not isinstance(parent, str | None):
            raise ConfigError(f"{following}: extends is {parent!r}, but wants the name of a file.")
        require_known(values, Recipe, str(following))
        layers.append((following, values))
        following = None if parent is None else following.parent / parent
    return layers


def _file_that_has(dotted: str, layers: Sequence[tuple[Path, Mapping[str, Any]]]) -> str:
    """The nearest file that sets a field, or the first of all."""
    for path, layer in layers:
        value: Any = layer
        for part in dotted.split("."):
            if isinstance(value, list):  # a place in a list, which one file sets as a whole
                break
            value = value.get(part, dataclasses.MISSING) if isinstance(value, Mapping) else value
        if value is not dataclasses.MISSING:
            return str(path)
    return str(layers[0][0])
