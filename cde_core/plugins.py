"""What other installed packages offer the trainer, by name.

    group, name ──▶ plugin ──▶ whatever the package put there

This package never imports the evaluation harness, nor anybody's package of training data, yet a
recipe may name what they have: pairs ("docs"), models ("minilm"), surrogates, evaluations. An
installed package declares it as an entry point in one of four groups:

    cde_core.models         () -> folder of a model
    cde_core.sources        (argument) -> source_kinds.SourceOfPairs
    cde_core.surrogates     (name, device or None) -> surrogates.Surrogate
    cde_core.evaluations    (encoder, settings) -> scores by name
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from cde_core.errors import ConfigError, did_you_mean


def plugin_names(group: str) -> tuple[str, ...]:
    """Names that installed packages declare in a group, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def plugin(group: str, name: str) -> Any:
    """Import what `name` stands for in `group`.

    Raises:
        ConfigError: If no installed package declares it, or it cannot be imported.
    """
    points = entry_points(group=group, name=name)
    if not points:
        names = plugin_names(group)
        known = f"installed are {', '.join(names)}." if names else "none is installed."
        raise ConfigError(
            f"No installed package declares {name!r} in the group {group}."
            f"{did_you_mean(name, names)} To mend it, install the package that does; {known}"
        )
    point = sorted(points, key=lambda found: found.value)[0]
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{name!r} of {group} ({point.value}) cannot be imported: {error}. "
            "Reinstall the package that declares it."
        ) from error
