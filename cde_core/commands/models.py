"""The commands that make models without training: init, export, difference.

backbone ──▶ init ──▶ model, untrained        model ──▶ export ──▶ the authors' format
                                              model, backbone ──▶ difference ──▶ a tenth of its size
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro


def init(
    backbone: Annotated[str, tyro.conf.Positional],
    /,
    *,
    out: Path,
    first_stage: str | None = None,
    context_documents: int = 512,
    tokens_per_document: int = 1,
    soft_prompts: int = 8,
    attention: Literal["prefix", "joint"] = "prefix",
    context_bias: float = -6.0,
    residual_first_head: bool = True,
    residual_head: bool = True,
    pool_instruction: bool = True,
    null_context: bool = True,
    rotary_on_context: bool = False,
    prefixes: bool = True,
    max_length: int | None = None,
    seed: int = 0,
) -> None:
    """Make an untrained two-stage model out of pretrained encoders.

    Args:
        backbone: Folder or hub name of the encoder that becomes the second stage.
        out: Folder for the model.
        first_stage: Encoder that becomes the first stage; by default the same.
        context_documents: Documents that the model reads first.
        tokens_per_document: First-stage vectors per document.
        soft_prompts: Learned rows between context and text.
        attention: prefix: context is computed once per corpus; joint: as published, and slower.
        context_bias: First value of the bias on attention to the context (prefix attention only).
            At -6 embeddings start at cosine 0.996 or more to the backbone's own, so training starts
            from what the backbone can do; at -4 the worst start at 0.94, and lower than -6 the
            context hardly gets gradients.
        residual_first_head: Add the pooled vector to the first stage's head, which then starts at
            zero.
        residual_head: Add the pooled vector to the output head, which then starts at zero.
        pool_instruction: Let the prefix's tokens count in the mean.
        null_context: Learn a stand-in for absent context.
        rotary_on_context: Let rotary positions tell context vectors apart.
        prefixes: Put the prefix of its purpose before every text.
        max_length: Tokens read of a text; by default as the backbone.
        seed: Of the parts that are new.
    """
    from cde_core.model.checkpoint import load, save  # imports torch; --help must not wait for it
    from cde_core.model.config import ContextualConfig
    from cde_core.model.initialise import contextual_from, stage_config

    second = load(backbone, device="cpu")
    first = load(first_stage, device="cpu") if first_stage else second
    config = ContextualConfig(
        first=stage_config(first),
        second=stage_config(second),
        context_documents=context_documents,
        tokens_per_document=tokens_per_document,
        soft_prompts=soft_prompts,
        context_attention=attention,
        context_bias_init=context_bias if attention == "prefix" else None,
        residual_first_head=residual_first_head,
        residual_head=residual_head,
        pool_instruction=pool_instruction,
        colon_id=second.reader.colon_id,
        null_context=null_context,
        rotary_on_context=rotary_on_context,
        prefixes=prefixes,
        max_length=max_length or second.model.config.max_length,
        backbone_name=backbone,
    )
    model = contextual_from(second, first, config, seed=seed)
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    print(f"{parameters:,} parameters, untrained  →  {save(model, out)}")


def export(model: Annotated[str, tyro.conf.Positional], /, *, out: Path) -> None:
    """Write a two-stage model in the format that its authors publish theirs in.

    Args:
        model: Folder of a model, such as DIR/model of a run, or a name on the hub.
        out: Folder to write.
    """
    from cde_core.model.checkpoint import export, load

    print(f"{model}  →  {export(load(model, device='cpu', cache=None), out)}")


def difference(
    model: Annotated[str, tyro.conf.Positional],
    /,
    *,
    out: Path,
    base: str = "",
    first_base: str = "",
    matrices: str = "int8",
) -> None:
    """Write a trained model without the backbones that it was made of: a tenth of its size.

    It loads like any other model, wherever the same backbones can be found by their names.

    Args:
        model: Folder of a model, such as DIR/model of a run.
        out: Folder to write.
        base: Folder or name of the second stage's backbone; by default the one in the model's
            config.
        first_base: The same of the first stage; by default the second's.
        matrices: How changed matrices are kept: int8 (a byte per weight), bfloat16 (two), or
            rank:R, such as rank:64 (the nearest product of two thin ones).
    """
    from cde_core.model.checkpoint import load, save_difference
    from cde_core.model.contextual import ContextualEncoder

    encoder = load(model, device="cpu", cache=None)
    base = base or encoder.model.config.backbone_name
    bases = {"backbone.": base}
    if isinstance(encoder.model, ContextualEncoder):
        bases["first_stage.backbone."] = first_base or base
    written = save_difference(encoder, out, bases, matrices=matrices)
    size = (written / "model.safetensors").stat().st_size / 2**20
    print(f"{model}  →  {written}, {size:.1f} MiB over {base}")
