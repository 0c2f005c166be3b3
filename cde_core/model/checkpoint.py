"""Save a model and load it again; load what others published.

    folder or name ──▶ load ──▶ TextEncoder ──▶ save             (our format)
                                            ├─▶ save_difference  (without its backbones)
                                            └─▶ export           (the published format)

Four kinds of folders load, told apart by their config.json: ours ("format"), whole or as the
difference from models that users have, the authors' two-stage models ("architecture":
"transductive"), and encoders of transformers or sentence-transformers ("model_type"). Ours holds
config.json, model.safetensors and tokenizer.json; a difference has no tokenizer of its own.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from cde_core.errors import ModelError
from cde_core.model.backbones import Backbone
from cde_core.model.biencoder import Biencoder
from cde_core.model.config import BiencoderConfig, ContextualConfig, from_dict, to_dict
from cde_core.model.context_cache import cache_folder
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.difference import compress, restore
from cde_core.model.encode import TextEncoder
from cde_core.model.fingerprint import digest_of_weights
from cde_core.model.hub import folder_of, read_json, read_tensors
from cde_core.model.published import (
    TOKENIZERS,
    biencoder_config,
    contextual_config,
    published_config,
)
from cde_core.model.t5 import T5
from cde_core.model.t5_config import T5Config, as_held
from cde_core.model.t5_names import import_t5
from cde_core.model.weight_names import (
    export_contextual,
    import_backbone,
    import_contextual,
    require_same_names,
)
from cde_core.tokens import TextReader, load_tokenizer

FORMAT = "cde_core model 1"
DIFFERENCE = "cde_core difference 1"
DEFAULT_CACHE = "$CDE_EVAL_CACHE"
Model = Biencoder | ContextualEncoder


def load(
    name: str | Path,
    *,
    device: str | None = None,
    dtype: str | torch.dtype = torch.float32,
    cache: str | Path | None = DEFAULT_CACHE,
    compile: bool | str = False,
) -> TextEncoder:
    """Load a model by its folder or its name on the hub.

    Args:
        name: Folder or hub name.
        device: Where to compute; None: a GPU if there is one.
        dtype: Precision of weights and arithmetic, such as "bfloat16".
        cache: Contexts that were read are kept in `contexts` below this folder, which is by default
            the one that the environment variable CDE_EVAL_CACHE names, or else ~/.cache/cde-eval;
            None: they are not kept.
        compile: Compile what embeds texts with PyTorch's default backend, or with the named one;
            the first calls take long.

    Raises:
        ModelError: If it is not a model, or one that we do not reproduce.
    """
    folder = folder_of(name)
    config = read_json(folder / "config.json")
    if config.get("format") == FORMAT:
        model, reader = _load_ours(config, folder)
    elif config.get("format") == DIFFERENCE:
        model, reader = _load_difference(config, folder)
    elif config.get("architecture") == "transductive":
        model, reader = _load_two_stage(config, folder)
    elif "model_type" in config:
        model, reader = _load_encoder(config, folder, str(name))
    else:
        raise ModelError(f"{folder / 'config.json'} describes no model that we know.")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device, _dtype(dtype))
    if compile:
        # In place: the compiled model keeps its class, its attributes and its weights' names.
        model.compile(dynamic=True, backend=compile if isinstance(compile, str) else "inductor")
    folder_of_contexts = cache_folder() if cache == DEFAULT_CACHE else cache
    return TextEncoder(
        model,
        reader,
        name=str(name),
        cache=None if folder_of_contexts is None else Path(folder_of_contexts).expanduser(),
    )


def save(encoder: TextEncoder, folder: str | Path) -> Path:
    """Write config.json, model.safetensors and tokenizer.json to `folder`, and return it.

    Raises:
        ModelError: If they cannot be written there.
    """
    model = encoder.model
    return _write(encoder, Path(folder), _described(FORMAT, model), model.state_dict())


def save_difference(
    encoder: TextEncoder, folder: str | Path, bases: Mapping[str, str], *, matrices: str = "int8"
) -> Path:
    """Write what distinguishes a model from those that it was made of, and return the folder.

    Args:
        encoder: The model.
        folder: Where to.
        bases: By the beginning of its weights' names, such as "first_stage.backbone.", the model
            (as for `load`) whose backbone they started as.
        matrices: How changed matrices are kept: int8, bfloat16, or rank:R.

    Raises:
        ConfigError: If `matrices` is none of these.
        ModelError: If a base cannot be loaded, its shape is another, or nothing can be written.
    """
    named = {part: _backbone_of(name) for part, name in bases.items()}
    kept = compress(encoder.model.state_dict(), _weights_of(named), matrices=matrices)
    config = _described(DIFFERENCE, encoder.model) | {
        "bases": {
            part: {"name": bases[part], "weights": digest_of_weights(base)}
            for part, base in named.items()
        }
    }
    return _write(encoder, Path(folder), config, kept, tokenizer=False)


def _described(form: str, model: Model) -> dict[str, Any]:
    kind = "contextual" if isinstance(model, ContextualEncoder) else "biencoder"
    return {"format": form, "kind": kind, "model": to_dict(model.config)}


def export(encoder: TextEncoder, folder: str | Path) -> Path:
    """Write a two-stage model as the authors publish theirs, and return the folder.

    Raises:
        ModelError: If the model is not one that the published format can hold, or it cannot be
            written.
    """
    model = encoder.model
    if not isinstance(model, ContextualEncoder):
        raise ModelError("The published format holds two-stage models only; use save.")
    config = published_config(model.config)
    return _write(
        encoder, Path(folder), config, export_contextual(model.state_dict(), model.config)
    )


def fill(model: Model, tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Give a model its weights, under our names.

    Raises:
        ModelError: If one is missing, unexpected, or of another shape.
    """
    wanted = model.state_dict()
    require_same_names(tensors, wanted, where=where)
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise ModelError(
                f"{where}: {name} has shape {tuple(tensor.shape)}, but the model's config asks for "
                f"{tuple(wanted[name].shape)}."
            )
    # Copies are aligned in memory, which weights in a file need not be: without them, the same
    # weights would give slightly different numbers before they are saved and after.
    model.load_state_dict({name: t.clone() for name, t in tensors.items()}, assign=True)


def without_weights(config: BiencoderConfig | ContextualConfig) -> Any:
    """A model whose weights take no memory and no time until `fill` brings them."""
    with torch.device("meta"):
        return (
            Biencoder(config) if isinstance(config, BiencoderConfig) else ContextualEncoder(config)
        )


def reader_for(config: BiencoderConfig | ContextualConfig, tokenizer: Any) -> TextReader:
    """A tokenizer with the limits of a model."""
    return TextReader(
        tokenizer,
        max_length=config.max_length,
        characters_per_token=config.characters_per_token,
    )


def _load_ours(config: Mapping[str, Any], folder: Path) -> tuple[Model, TextReader]:
    settings = _settings(config)
    model: Model = without_weights(settings)
    fill(model, read_tensors(folder), where=str(folder))
    return model, reader_for(settings, load_tokenizer([folder, settings.backbone_name]))


def _load_difference(config: Mapping[str, Any], folder: Path) -> tuple[Model, TextReader]:
    settings = _settings(config)
    named = {}
    for part, base in config["bases"].items():
        named[part] = _backbone_of(base["name"])
        if digest_of_weights(named[part]) != base["weights"]:
            raise ModelError(
                f"{folder} is the difference from another {base['name']} than the one at hand; "
                "bring the one that it was made from."
            )
    model: Model = without_weights(settings)
    fill(model, restore(read_tensors(folder), _weights_of(named)), where=str(folder))
    places = [folder, *(folder_of(base["name"]) for base in config["bases"].values())]
    return model, reader_for(settings, load_tokenizer(places))


def _settings(config: Mapping[str, Any]) -> BiencoderConfig | ContextualConfig:
    if config.get("kind") == "contextual":
        return from_dict(ContextualConfig, config["model"])
    return from_dict(BiencoderConfig, config["model"])


def _backbone_of(name: str) -> Backbone | T5:
    """The backbone (of the second stage) of a model, in float32 on the CPU."""
    return load(name, device="cpu", cache=None).model.backbone


def _weights_of(bases: Mapping[str, Backbone | T5]) -> dict[str, Tensor]:
    """All their weights, each under the names that they have in the whole."""
    return {
        part + name: tensor
        for part, base in bases.items()
        for name, tensor in base.state_dict().items()
    }


def _load_two_stage(config: Mapping[str, Any], folder: Path) -> tuple[Model, TextReader]:
    backbone = str(config.get("embedder", ""))
    tokenizer = load_tokenizer([folder, TOKENIZERS.get(backbone, backbone)])
    settings = contextual_config(config, colon_id=tokenizer.token_to_id(":"))
    model: ContextualEncoder = without_weights(settings)
    tensors = import_contextual(
        read_tensors(folder), settings, model.state_dict(), where=str(folder)
    )
    fill(model, tensors, where=str(folder))
    return model, reader_for(settings, tokenizer)


def _load_encoder(config: Mapping[str, Any], folder: Path, name: str) -> tuple[Model, TextReader]:
    settings = biencoder_config(config, folder, name)
    published = read_tensors(folder)
    if isinstance(settings.backbone, T5Config):
        settings = dataclasses.replace(settings, backbone=as_held(settings.backbone, published))
    model: Biencoder = without_weights(settings)
    backbone, wanted = settings.backbone, model.backbone.state_dict()
    if isinstance(backbone, T5Config):
        tensors = import_t5(published, backbone, wanted, where=str(folder))
    else:
        tensors = import_backbone(published, backbone, wanted, where=str(folder))
    fill(model, {f"backbone.{k}": tensor for k, tensor in tensors.items()}, where=str(folder))
    return model, reader_for(settings, load_tokenizer([folder]))


def _write(
    encoder: TextEncoder,
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    tokenizer: bool = True,
) -> Path:
    # "format" is what transformers looks for before it reads a safetensors file.
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    unfinished = folder / "model.safetensors.unfinished"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights, unfinished, metadata={"format": "pt"})
        if tokenizer:
            encoder.reader.save(folder)
        (folder / "config.json").write_text(text, encoding="utf-8")
        # safetensors keeps its files to their owner; they are as readable as everything else here.
        unfinished.chmod((folder / "config.json").stat().st_mode)
        unfinished.replace(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(
            f"A model cannot be written to {folder} ({reason}); make room there, or name another "
            "folder."
        ) from error
    return folder


def _dtype(name: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, name, None) if isinstance(name, str) else name
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ModelError(f"{name!r} is not a precision; use float32 or bfloat16.")
    return found
