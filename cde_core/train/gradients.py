"""The gradient of one batch, whichever model and objective, however many processes.

    BatchPlan + BatchTexts ──▶ batch_gradient ──▶ every parameter's .grad, and what to report
                                     │
          context (first stage) ──▶ queries, documents (second stage) ──▶ objective, by some rows

Each process embeds its share of the queries with the documents that they brought, and its share of
the context. Vectors of contexts and (where negatives are shared) of documents are exchanged; so are
their gradients on the way back. An objective that is `joint` sees the whole batch on every process,
and counts for a part on each. The result is the gradient that one process would have computed for
the whole batch, up to the order of additions.

Source: Morris and Rush (2024), section 4, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cde_core.model.contextual import ContextualEncoder, Prepared
from cde_core.model.encode import TextEncoder
from cde_core.train.batching.batches import BatchPlan, BatchTexts, ContextPlan, Numbers
from cde_core.train.batching.filtering import Masks
from cde_core.train.distributed import World
from cde_core.train.gradcache import CachedContext, CachedTexts
from cde_core.train.objectives.columns import Columns
from cde_core.train.objectives.objective import Judged, Objective, Part

QUERIES_AT_ONCE = 256
"""Queries that an objective sees together, unless it is joint; bounds the logits in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HowToCompute:
    """What bounds memory and time, and (but for precision) leaves the gradient as it is."""

    tokens_at_once: int = 4096
    """Tokens per chunk, padding included."""

    keep_graphs: bool = False
    """Keep every chunk's graph: faster, and memory grows with the batch."""

    precision: torch.dtype = torch.float32
    """Of the arithmetic; weights and gradients are float32."""


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """What a batch says of the model, before the step."""

    loss: float
    """What is lowered; a mean over queries, where the objective is."""

    measures: Mapping[str, float]
    """What else the objective tells, such as its accuracy; a share from 0 to 1 first."""


def batch_gradient(
    encoder: TextEncoder,
    plan: BatchPlan,
    texts: BatchTexts,
    masks: Masks,
    *,
    objective: Objective,
    judged: Judged | None = None,
    share_negatives: bool = True,
    how: HowToCompute | None = None,
    world: World | None = None,
) -> BatchLoss:
    """Add a batch's gradient to every parameter's, the objective's own included.

    Args:
        encoder: The model.
        plan: The whole batch.
        texts: Its texts.
        masks: What each query ignores.
        objective: What is lowered.
        judged: What is known of its pairs beyond their texts; None: nothing.
        share_negatives: Whether a query is scored against the documents of all processes, where
            the objective is not joint, which then sees them anyway.
        how: Chunks and precision.
        world: The processes; None: this one alone.
    """
    how, world = how or HowToCompute(), world or World(device=encoder.device)
    model = encoder.model
    own = world.share(len(plan.rows))
    columns = plan.documents_of(own)
    judged = judged or Judged.nothing(len(plan.rows), len(plan.owners))
    with torch.autocast(
        world.device.type, dtype=torch.bfloat16, enabled=how.precision != torch.float32
    ):
        context: _Context | None = None
        embed: Sequence[Callable[[Tensor, Tensor | None], Tensor]] = (model, model)
        if isinstance(model, ContextualEncoder) and plan.contexts:
            context = _Context(encoder, model, plan.contexts, texts, how, world)
            embed = [partial(_in_context, model, side.prepared) for side in context.sides]
        cached = partial(_cached, encoder=encoder, how=how, world=world)
        queries = cached(embed[0], texts.prefixed_queries(own))
        documents = cached(embed[1], texts.prefixed_documents(columns))
        found = _loss(
            queries.forward(),
            documents.forward(),
            (own, columns),
            plan,
            masks,
            judged,
            objective,
            share_negatives,
            world,
        )
        queries.backward(found.for_queries)
        documents.backward(found.for_documents)
        if context:
            context.backward()
    world.total_gradients([*model.parameters(), *objective.parameters()])
    return found.report


def _in_context(
    model: ContextualEncoder, prepared: Prepared, ids: Tensor, mask: Tensor | None
) -> Tensor:
    vectors: Tensor = model(ids, mask, prepared)
    return vectors


def _cached(
    embed: Callable[[Tensor, Tensor | None], Tensor],
    texts: Sequence[str],
    *,
    encoder: TextEncoder,
    how: HowToCompute,
    world: World,
) -> CachedTexts:
    return CachedTexts(
        embed,
        encoder.reader.read(texts),
        device=world.device,
        tokens_at_once=how.tokens_at_once,
        rows_in_front=encoder.rows_in_front,
        keep_graphs=how.keep_graphs,
    )


class _Context:
    """The first stage of both sides: distinct documents are read once, each by one process."""

    def __init__(
        self,
        encoder: TextEncoder,
        model: ContextualEncoder,
        plans: tuple[ContextPlan, ContextPlan],
        texts: BatchTexts,
        how: HowToCompute,
        world: World,
    ) -> None:
        self._world = world
        self._tokens = model.config.tokens_per_document
        drawn = np.concatenate([plan.documents for plan in plans])
        distinct, places = np.unique(drawn, return_inverse=True)
        self._places = [torch.from_numpy(p).to(world.device) for p in np.split(places, 2)]
        self._own = torch.from_numpy(world.share(len(distinct))).to(world.device)
        self._trained = any(p.requires_grad for p in model.first_stage.parameters())
        self._first = CachedTexts(
            lambda ids, mask: model.read_context(ids, mask).view(len(ids), -1),
            encoder.reader.read(texts.prefixed_documents(distinct[world.share(len(distinct))])),
            device=world.device,
            tokens_at_once=how.tokens_at_once,
            keep_graphs=how.keep_graphs,
        )
        width = self._tokens * model.config.first.hidden
        self._vectors = torch.zeros(len(distinct), width, device=world.device)
        if len(self._own):
            self._vectors[self._own] = self._first.forward()
        world.total(self._vectors)
        self.sides = [
            self._side(model, plan, place) for plan, place in zip(plans, self._places, strict=True)
        ]

    def _side(self, model: ContextualEncoder, plan: ContextPlan, place: Tensor) -> CachedContext:
        dropped = torch.from_numpy(plan.dropped).to(self._world.device)

        def prepare(vectors: Tensor) -> Prepared:
            if plan.dropped.any():
                vectors = model.replace_by_null(vectors, dropped)
            return model.prepare(vectors)

        return CachedContext(prepare, self._vectors[place].view(-1, model.config.first.hidden))

    def backward(self) -> None:
        gradient = torch.zeros_like(self._vectors)
        for side, place in zip(self.sides, self._places, strict=True):
            gradient.index_add_(0, place, side.backward().view(len(place), -1))
        self._world.total(gradient)
        if self._trained and len(self._own):
            self._first.backward(gradient[self._own])


@dataclass(frozen=True, slots=True)
class _Found:
    for_queries: Tensor
    for_documents: Tensor
    report: BatchLoss


def _loss(
    queries: Tensor,
    documents: Tensor,
    share: tuple[Numbers, Numbers],
    plan: BatchPlan,
    masks: Masks,
    judged: Judged,
    objective: Objective,
    share_negatives: bool,
    world: World,
) -> _Found:
    """This process's part of the loss, and the gradients of its queries and documents."""
    own, columns = (torch.from_numpy(numbers) for numbers in share)
    everyone = share_negatives or objective.joint
    asked, weight = own, 1.0
    if objective.joint:
        # Every process computes the same, and their sum counts it once.
        asked, weight = torch.arange(len(plan.rows)), 1 / world.size
        queries = _of_everyone(queries, own, len(plan.rows), world)
    if everyone:
        documents = _of_everyone(documents, columns, len(plan.owners), world)
    documents = documents.requires_grad_()
    for_queries = torch.empty_like(queries)
    loss, measures = 0.0, dict[str, float]()
    at_once = len(asked) if objective.joint else QUERIES_AT_ONCE
    for start in range(0, len(asked), at_once):
        rows = slice(start, start + at_once)
        some = queries[rows].detach().requires_grad_()
        part = _part(asked[rows], None if everyone else columns, plan, masks, judged, world.device)
        with torch.autocast(world.device.type, enabled=False):
            found = objective(some, documents, part)
        torch.autograd.backward(found.loss * weight)
        for_queries[rows] = _gradient(some)
        loss += found.loss.item() * weight
        for name, value in found.measures.items():
            measures[name] = measures.get(name, 0.0) + value * weight
    for_documents = _gradient(documents)
    if objective.joint:
        for_queries = world.total(for_queries)[own.to(world.device)]
    if everyone:
        for_documents = world.total(for_documents)[columns.to(world.device)]
    values = world.total(torch.tensor([loss, *measures.values()], device=world.device)).tolist()
    report = BatchLoss(values[0], dict(zip(measures, values[1:], strict=True)))
    return _Found(for_queries, for_documents, report)


def _of_everyone(vectors: Tensor, own: Tensor, count: int, world: World) -> Tensor:
    """The vectors of all processes (count, h), each where it stands in the batch."""
    everyone = vectors.new_zeros(count, vectors.shape[1])
    everyone[own.to(world.device)] = vectors
    return world.total(everyone)


def _part(
    queries: Tensor,
    documents: Tensor | None,
    plan: BatchPlan,
    masks: Masks,
    judged: Judged,
    device: torch.device,
) -> Part:
    """What an objective is told of some queries (n,) and some documents (c,); None: of all."""
    columns, teacher = plan.columns.of(queries), judged.teacher
    if documents is not None:
        # Other processes' answers are no columns here, and neither are their owners.
        columns, teacher = columns.among(documents), teacher[documents]

    precision = torch.get_autocast_dtype(device.type)
    lowered = torch.is_autocast_enabled(device.type)

    def masked() -> Tensor | None:
        # At the batch's precision, not the objective's: what runs so far ignored depends on it.
        with torch.autocast(device.type, dtype=precision, enabled=lowered):
            ignored = masks(queries.numpy())
        if ignored is None:
            return None
        return (ignored if documents is None else ignored[:, documents]).to(device)

    return Part(
        columns=Columns(columns.answers.to(device), columns.owners.to(device)),
        judged=Judged(
            scores=judged.scores[queries].to(device),
            labels=judged.labels[queries].to(device),
            teacher=teacher.to(device),
        ),
        batch=len(plan.rows),
        masked=masked,
    )


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
