"""Find a model's files: in a folder, or on the Hugging Face hub.

    name or folder ──▶ folder_of ──▶ folder ──▶ read_json, read_tensors

Nothing that comes from there is ever executed: configurations are JSON, weights are safetensors, or
pickles of which only tensors are read. HF_HUB_OFFLINE=1 keeps it to what was downloaded before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from cde_core.errors import ModelError
from cde_core.plugins import plugin, plugin_names

MODELS = "cde_core.models"
"""Entry points that give a model's folder, by a name of its own such as "minilm"."""

WANTED = [
    *("*.json", "vocab.txt", "spiece.model", "1_Pooling/*.json"),
    *("model.safetensors", "pytorch_model.bin"),
]


def folder_of(
    name: str | Path, *, revision: str | None = None, wanted: Sequence[str] = WANTED
) -> Path:
    """Folder with the model's files; a plug-in's name goes before the hub's.

    Args:
        name: A folder, a plug-in's name, or a name on the hub.
        revision: Branch, tag or commit on the hub; None: what is there now.
        wanted: Patterns of the files to fetch from the hub.

    Raises:
        ModelError: If there is no such folder and the hub does not give one.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if str(name) in plugin_names(MODELS):
        given: Path = plugin(MODELS, str(name))()
        return given
    if isinstance(name, Path) or str(name).startswith((".", "/", "~")) or str(name).count("/") > 1:
        raise ModelError(f"There is no model folder {name}.")
    try:
        return Path(snapshot_download(str(name), revision=revision, allow_patterns=[*wanted]))
    except HFValidationError:
        raise ModelError(f"{name!r} is neither a folder nor a name on the hub.") from None
    except (
        Exception
    ) as error:  # the hub client raises many kinds, and its advice is paragraphs long
        offline = " while HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise ModelError(
            f"{name!r} is not a folder, and the hub did not give it{offline} "
            f"({type(error).__name__}); check the name, or download it and pass its folder."
        ) from error


def read_json(file: Path) -> dict[str, Any]:
    """Content of a JSON file that holds an object.

    Raises:
        ModelError: If it is missing or broken.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{file.parent} has no {file.name}, so it is not a model.") from None
    except ValueError as error:
        raise ModelError(f"{file} is not valid JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ModelError(f"{file} should hold an object, not a {type(content).__name__}.")
    return content


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a model, on the CPU.

    Raises:
        ModelError: If there are none, or the file is broken.
    """
    weights, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    try:
        if weights.is_file():
            return load_file(weights)
        if pickled.is_file():
            return dict(torch.load(pickled, map_location="cpu", weights_only=True))
    except (SafetensorError, OSError, EOFError, RuntimeError) as error:
        raise ModelError(f"The weights in {folder} cannot be read: {error}.") from None
    raise ModelError(f"{folder} has no model.safetensors.")
