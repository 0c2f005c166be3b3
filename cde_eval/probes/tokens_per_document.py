"""Many documents in brief, or few in detail: the same number of context vectors, cut otherwise.

    J · T context vectors ──▶ J / 2 documents of 2 T vectors each, … ──▶ evaluate ──▶ records
                                            report/context_curves.py ──▶ score against T

A contextual transformer turns each of J documents into T vectors, the means of T equal spans of its
tokens, and the second stage takes J · T of them. There are no weights for a span, so a checkpoint
can be asked to cut otherwise than it was trained to; what a model trained that way would do is
another question, which takes a training run for every T.

T is a setting of the encoder, in its records and in the key of its vectors on disk.

Source: Morris and Rush (2024), section 10.11 and figure 18, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from cde_core.errors import ConfigError, ModelError
from cde_core.model.context_cache import cache_folder
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import Encoder, LoadOptions
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.kept import kept, unkept
from cde_eval.plan import Evaluation
from cde_eval.results import TOKENS_PER_DOCUMENT
from cde_eval.tasks.catalogue import TaskSource

MOST = 16
"""Vectors per document up to which the usual numbers go."""


def contextual_transformer(model: str, encoder: Encoder) -> tuple[Cde, ContextualEncoder]:
    """The encoder and its network, where it has vectors of documents to cut.

    Raises:
        ModelError: If it is no contextual transformer.
    """
    inner = unkept(encoder)
    if isinstance(inner, Cde) and isinstance(inner.model.model, ContextualEncoder):
        return inner, inner.model.model
    raise ModelError(
        f"{model} has no vectors of single documents in its context, so there is nothing to cut; "
        "name a contextual transformer: a checkpoint of cde-train, or jxm/cde-small-v1."
    )


def usual_tokens(network: ContextualEncoder) -> tuple[int, ...]:
    """1, 2, 4, … of which a full context is a multiple."""
    rows = network.config.context_rows
    return tuple(t for t in (2**power for power in range(MOST.bit_length())) if rows % t == 0)


def cut_into(model: str, encoder: Encoder, tokens: int) -> Encoder:
    """The same weights, reading fewer documents in more detail, or more in less.

    Args:
        model: As it was asked for.
        encoder: What it names.
        tokens: Vectors per document (T); the documents are as many as fill the context.

    Raises:
        ConfigError: If documents of T vectors do not fill the context.
        ModelError: If it is no contextual transformer.
    """
    cde, network = contextual_transformer(model, encoder)
    rows = network.config.context_rows
    if tokens < 1 or rows % tokens:
        fitting = ", ".join(str(t) for t in range(1, rows + 1) if rows % t == 0)
        raise ConfigError(
            f"The context of {model} has {rows} vectors, which documents of {tokens} do not fill; "
            f"--tokens takes {fitting}."
        )
    cut = copy.copy(network)  # shares every weight
    cut.config = replace(
        network.config, tokens_per_document=tokens, context_documents=rows // tokens
    )
    reading = TextEncoder(cut, cde.model.reader, name=cde.model.name, cache=cache_folder())
    dtype = cde.settings.get("dtype", "float32")
    found = Cde(reading, cde.name, cde.revision, dtype)
    found.settings = {**found.settings, TOKENS_PER_DOCUMENT: str(tokens)}
    return kept(found)


def tokens_plan(
    model: str,
    encoder: Encoder,
    tasks: Sequence[TaskSource],
    tokens: int,
    *,
    draws: int = 3,
    seed: int = 42,
    options: LoadOptions,
) -> Evaluation:
    """One model on every task, each document of the corpus's sample cut into so many vectors.

    Args:
        model: As it was asked for.
        encoder: What it names.
        tasks: Search tasks.
        tokens: Vectors per document (T).
        draws: Samples for each task.
        seed: Seed of the first draw.
        options: How the encoder was loaded.

    Raises:
        ConfigError: If documents of T vectors do not fill the context, or there is no task or draw.
        ModelError: If the model is no contextual transformer.
    """
    return Evaluation(
        models=(model,),
        tasks=tuple(tasks),
        policies=(ContextPolicy("corpus", seed=seed),),
        draws=draws,
        options=options,
        loaded={model: cut_into(model, encoder, tokens)},
    )
