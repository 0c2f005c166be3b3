"""From what a user writes after `--model` to an encoder.

    "bm25"   "minilm"   "centred:minilm"   "path/to/folder"   "org/name"
       └────────┴──────────────┴─────────────────┴───────────────┘
                       kind [":" argument]  ──▶  entry point  ──▶  Encoder

Kinds are entry points of the group `cde_eval.encoders`: an installed package that declares one adds
an encoder without any change here. An entry point names a function
`load(argument: str, options: LoadOptions) -> Encoder`. Text that starts with no known kind is a
folder or a hub name: a contextual checkpoint if its config says so, otherwise a biencoder.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Literal

from cde_core.errors import ModelError, did_you_mean
from cde_eval.encoders.protocol import Encoder

GROUP = "cde_eval.encoders"

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is brought into memory."""

    device: str = "cpu"
    """Where it computes: "cpu", "cuda", "cuda:1", "mps"."""

    dtype: Precision = "float32"
    """Precision of weights and activations; vectors leave as float32."""

    engine: str = "here"
    """Where texts are embedded and vectors searched: "here", "ray", "ray:ADDRESS"."""


Loader = Callable[[str, LoadOptions], Encoder]


def encoder_kinds() -> dict[str, EntryPoint]:
    """Every kind of encoder that is installed, ours and others', by name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP))}


@functools.lru_cache(maxsize=8)
def load_encoder(model: str, options: LoadOptions = LoadOptions()) -> Encoder:
    """Bring the encoder that `model` names into memory.

    Args:
        model: A kind ("bm25"), a kind with its argument ("centred:minilm"), a model folder, or the
            hub name of a model.
        options: Device and precision.

    Raises:
        ModelError: If there is no such kind, folder or hub name, or it cannot be loaded.
    """
    kinds = encoder_kinds()
    kind, colon, argument = model.partition(":")
    if kind in kinds:
        return _loader(kinds[kind])(argument if colon else "", options)
    return _loader(kinds[_kind_of_folder_or_name(model, kinds)])(model, options)


def _loader(point: EntryPoint) -> Loader:
    try:
        loader: Loader = point.load()
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"The encoder {point.name!r} ({point.value}) cannot be imported: {error}. "
            "Reinstall the package that declares it."
        ) from error
    return loader


def _kind_of_folder_or_name(model: str, kinds: dict[str, EntryPoint]) -> str:
    folder = Path(model)
    if folder.is_dir():
        return "cde" if _is_contextual(folder) else "biencoder"
    if folder.exists():
        raise ModelError(f"{model} is a file; a model is a folder that holds a config.json.")
    if model.count("/") == 1 and not model.startswith((".", "/", "~")):
        return "cde" if model.startswith("jxm/cde-") else "biencoder"
    raise ModelError(
        f"There is no model {model!r}: it is no folder, no hub name (org/model), and no encoder."
        f"{did_you_mean(model, kinds) or ' `cde-eval encoders` lists the encoders.'}"
    )


def _is_contextual(folder: Path) -> bool:
    config = folder / "config.json"
    if not config.is_file():
        return False
    try:
        fields = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{config} is not valid JSON: {error}.") from error
    ours = str(fields.get("format", "")).startswith("cde_core")
    return ours or fields.get("architecture") == "transductive"
