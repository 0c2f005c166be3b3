"""Between nested values, as YAML has them, and a Recipe; and one line for what is wrong with them.

    {"batches": {"size": 64}} ──▶ require_known ──▶ merged ──▶ validated ──▶ Recipe ──▶ plain

Reading is strict: "12" is no number, 1 is no truth, one name is no list of names. An error says
which file holds the value, its dotted name, what was found and what is wanted.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from cde_core.errors import ConfigError, did_you_mean
from cde_core.recipe_config import Recipe

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "tuple_type": "a list",
    "too_long": "a shorter list",
    "missing": "a longer list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping of settings",
}


def require_known(values: Mapping[str, Any], kind: type, where: str, section: str = "") -> None:
    """Refuse keys that no field has, in sections too."""
    types = _types(kind)
    for name, value in values.items():
        if name not in types:
            known = [f"{section}{field}" for field in types]
            known += [] if section else ["extends"]
            everywhere = [*known, *(dotted for dotted, _ in flat(plain(Recipe())))]
            hint = did_you_mean(f"{section}{name}", known, most=1)
            hint = hint or did_you_mean(f"{section}{name}", [*everywhere, "extends"], most=1)
            if name in everywhere:  # dotted, as on a command line
                hint = f" Write {name.split('.')[0]}: and, indented below it, the rest."
            raise ConfigError(f"{where}: there is no setting {section}{name}.{hint}")
        if dataclasses.is_dataclass(types[name]) and isinstance(value, Mapping):
            require_known(value, cast(type, types[name]), where, f"{section}{name}.")


def validated(values: Mapping[str, Any], *, where: Callable[[str], str]) -> Recipe:
    """Build the recipe; strictly, so that "12" is no number and 1 is no truth.

    JSON between YAML and pydantic, because its strict reading of JSON takes lists for tuples and
    text for paths, and nothing else for anything.
    """
    from pydantic import ValidationError

    try:
        text = json.dumps(_with_numbers(values, Recipe), default=str)
        return _adapter().validate_json(text, strict=True)
    except ValidationError as error:
        raise ConfigError(_one_line(error, where)) from None
    except ConfigError as error:
        name = str(error).split(" ", 1)[0]
        raise ConfigError(f"{where(name)}: {error}") from None


@functools.cache
def _adapter() -> TypeAdapter[Recipe]:
    from pydantic import TypeAdapter

    return TypeAdapter(Recipe)


def _one_line(error: ValidationError, where: Callable[[str], str]) -> str:
    first = error.errors(include_url=False)[0]
    short = first["type"] == "missing"  # a list without its last place, which is what `loc` names
    dotted = ".".join(str(part) for part in first["loc"][: -1 if short else None])
    found = shown(first["input"])
    if first["type"] == "literal_error":
        choices = first["ctx"]["expected"]
        near = did_you_mean(str(first["input"]), re.findall("'(.*?)'", choices))
        return f"{where(dotted)}: {dotted} is {found}; it can be {choices}.{near}"
    wanted = WANTED.get(first["type"], first["msg"])
    return f"{where(dotted)}: {dotted} is {found}, but wants {wanted}."


def _with_numbers(values: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """YAML 1.1 reads 2e-5, which has no point, as text; where a number is wanted, it is one."""
    types = _types(kind)
    return {name: _as_number(value, types.get(name)) for name, value in values.items()}


def _as_number(value: Any, kind: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return _with_numbers(value, cast(type, kind))
    parts = typing.get_args(kind)
    if isinstance(value, list) and float in parts:
        return [_as_number(one, float) for one in value]
    if isinstance(value, str) and (kind is float or float in parts):
        try:
            return float(value)
        except ValueError:
            return value
    return value


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge; everything else of `above` replaces what is below."""
    both = dict(below)
    for name, value in above.items():
        under = both.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            value = merged(under, value)
        both[name] = value
    return both


def plain(recipe: Recipe) -> dict[str, Any]:
    """Nested dictionaries, lists and text, as in YAML."""
    found: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(recipe), default=str))
    return found


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted name."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def shown(value: Any) -> str:
    """A value as YAML would have it, in one line."""
    return json.dumps(value, ensure_ascii=False, default=str)
