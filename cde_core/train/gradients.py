"""The gradient of one batch, whichever model, however many processes.

    BatchPlan + BatchTexts ──▶ batch_gradient ──▶ every parameter's .grad, and what to report
                                     │
          context (first stage) ──▶ queries, documents (second stage) ──▶ loss, some rows at a time

Each process embeds its share of the queries with the documents that they brought, and its share of
the context. Vectors of contexts and (where negatives are shared) of documents are exchanged; so are
their gradients on the way back. The result is the gradient that one process would have computed for
the whole batch, up to the order of additions.

Source: Morris and Rush (2024), section 4, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cde_core.model.contextual import ContextualEncoder, Prepared
from cde_core.model.encode import TextEncoder
from cde_core.train.batching.batches import BatchPlan, BatchTexts, ContextPlan, Numbers
from cde_core.train.batching.filtering import Masks
from cde_core.train.distributed import World
from cde_core.train.gradcache import CachedContext, CachedTexts
from cde_core.train.losses import Columns, partition

QUERIES_AT_ONCE = 256
"""Rows of the logits that stand in memory together."""


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
    """Cross-entropy in nats, mean over queries."""

    accuracy: float
    """Share of queries whose answer scores highest among what counts."""

    ignored: float
    """Share of the columns that do not count for a query."""


def batch_gradient(
    encoder: TextEncoder,
    plan: BatchPlan,
    texts: BatchTexts,
    masks: Masks,
    *,
    temperature: float,
    share_negatives: bool = True,
    how: HowToCompute | None = None,
    world: World | None = None,
) -> BatchLoss:
    """Add a batch's gradient to every parameter's.

    Args:
        encoder: The model.
        plan: The whole batch.
        texts: Its texts.
        masks: What each query ignores.
        temperature: What cosines are divided by.
        share_negatives: Whether a query is scored against the documents of all processes.
        how: Chunks and precision.
        world: The processes; None: this one alone.
    """
    how, world = how or HowToCompute(), world or World(device=encoder.device)
    model = encoder.model
    own = world.share(len(plan.rows))
    columns = plan.documents_of(own)
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
            temperature,
            share_negatives,
            world,
        )
        queries.backward(found.for_queries)
        documents.backward(found.for_documents)
        if context:
            context.backward()
    world.total_gradients(model.parameters())
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
    temperature: float,
    share_negatives: bool,
    world: World,
) -> _Found:
    """The loss of this process's queries, and the gradients of its queries and documents."""
    own, columns = share
    here = torch.from_numpy(columns).to(world.device)
    whose = plan.columns
    if share_negatives:
        everyone = documents.new_zeros(len(plan.owners), documents.shape[1])
        everyone[here] = documents
        documents = world.total(everyone)
    documents = documents.requires_grad_()
    for_queries = torch.empty_like(queries)
    sums = torch.zeros(3, dtype=torch.float64)  # loss, right answers, ignored columns
    for start in range(0, len(own), QUERIES_AT_ONCE):
        rows = slice(start, start + QUERIES_AT_ONCE)
        asked, ignored = whose.of(torch.from_numpy(own[rows])), masks(own[rows])
        if not share_negatives:
            # Other processes' answers are no columns here, and neither are their owners.
            asked = asked.among(torch.from_numpy(columns))
            ignored = None if ignored is None else ignored[:, torch.from_numpy(columns)]
        some = queries[rows].detach().requires_grad_()
        loss, right = _cross_entropy(some, documents, asked, ignored, temperature)
        torch.autograd.backward(loss / len(plan.rows))
        for_queries[rows] = _gradient(some)
        sums += torch.tensor([loss.item(), right, 0 if ignored is None else int(ignored.sum())])
    for_documents = _gradient(documents)
    if share_negatives:
        for_documents = world.total(for_documents)[here]
    loss_sum, right, ignored_sum = world.total(sums.float().to(world.device)).tolist()
    count = len(plan.rows)
    report = BatchLoss(
        loss=loss_sum / count,
        accuracy=right / count,
        ignored=ignored_sum / (count * len(plan.owners)),
    )
    return _Found(for_queries, for_documents, report)


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _cross_entropy(
    queries: Tensor,
    documents: Tensor,
    columns: Columns,
    ignored: Tensor | None,
    temperature: float,
) -> tuple[Tensor, int]:
    """Sum of the losses of some queries, and how many are answered rightly."""
    device = queries.device
    columns = Columns(columns.answers.to(device), columns.owners.to(device))
    masked = None if ignored is None else ignored.to(device)
    with torch.autocast(device.type, enabled=False):
        logits = partition(queries, documents, columns, masked=masked, temperature=temperature)
    right = int((logits.detach().argmax(dim=1) == columns.answers).sum())
    return F.cross_entropy(logits, columns.answers, reduction="sum"), right
