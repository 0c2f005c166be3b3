"""From what a user writes after `--engine` to an engine.

"here"   "ray"   "ray:auto"   "ray:10.0.0.5:6379"   "ray:ray://10.0.0.5:10001"

What comes after `ray:` goes to `ray.init` as it is.
"""

from __future__ import annotations

from cde_core.errors import ConfigError, did_you_mean
from cde_eval.encoders.registry import LoadOptions
from cde_eval.engines.here import Engine, Here


def engine_named(model: str, options: LoadOptions) -> Engine:
    """The engine that `options` ask for, to work for one model.

    Args:
        model: The encoder, by the name that `load_encoder` takes; other machines load it by it.
        options: How it is loaded, and `engine`: where.

    Raises:
        ConfigError: If there is no such engine, or no cluster answers at its address.
    """
    name, _, address = options.engine.partition(":")
    if options.engine == "here":
        return Here()
    if name == "ray":
        from cde_eval.engines.ray import RayEngine  # Ray is an extra

        return RayEngine(model, options, address or None)
    raise ConfigError(
        f"There is no engine {options.engine!r}; use here, ray (a cluster of this machine's own, "
        f"or the one that $RAY_ADDRESS names) or ray:ADDRESS."
        f"{did_you_mean(name, ('here', 'ray'))}"
    )
