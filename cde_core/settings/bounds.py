"""What numbers and keys may be; every check names the field as it is written in a recipe."""

from __future__ import annotations

import math
import re

from cde_core.errors import ConfigError

STRICT = {"extra": "forbid"}  # how pydantic treats keys that no field has


def at_least(name: str, value: float, least: int) -> None:
    """Refuse numbers below `least`, and those that are none."""
    if not least <= value < math.inf:
        raise ConfigError(f"{name} is {value}; the least that works is {least}.")


def positive(name: str, value: float, *, such_as: str) -> None:
    """Refuse numbers that are not above 0, with one that works."""
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value}; it must be a number above 0, such as {such_as}.")


def known_device(device: str) -> None:
    """Refuse what is no name of a device."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise ConfigError(f"device is {device!r}; it can be auto, cpu, cuda, cuda:1 or mps.")


def probability(name: str, value: float) -> None:
    """Refuse what is not at least 0 and below 1, with the nearest that works."""
    if not 0 <= value < 1:
        nearest = "0" if not value > 0 else "0.999"
        raise ConfigError(
            f"{name} is {value}; it must be at least 0 and below 1, the nearest is {nearest}."
        )
