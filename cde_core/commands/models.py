"""The commands that make models without training: init, export.

backbone ──▶ init ──▶ model, untrained        model ──▶ export ──▶ the authors' format
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
    from cde_core.model.initialise import contextual_from

    second = load(backbone, device="cpu")
    first = load(first_stage, device="cpu") if first_stage else second
    config = ContextualConfig(
        first=first.model.backbone.config,
        second=second.model.backbone.config,
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
