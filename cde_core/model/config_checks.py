"""What every configuration of a model refuses, in one line.

name, value ──▶ require_choice, require_at_least ──▶ nothing, or ConfigError
"""

from __future__ import annotations

from cde_core.errors import ConfigError, did_you_mean


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of these.

    Raises:
        ConfigError: If it is none; the message offers the nearest.
    """
    if value not in choices:
        raise ConfigError(
            f"{name} is {value!r}; it can be {', '.join(choices)}.{did_you_mean(value, choices)}"
        )


def require_at_least(least: int, name: str, value: int) -> None:
    """Refuse a number that is too small.

    Raises:
        ConfigError: If it is.
    """
    if value < least:
        raise ConfigError(f"{name} is {value}; it must be at least {least}.")
