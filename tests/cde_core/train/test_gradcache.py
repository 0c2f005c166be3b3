"""Gradients computed in chunks are those of the authors' code, and of plain autograd."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cde_core.model.transformer import set_dropout
from cde_core.model.weight_names import export_contextual
from cde_core.train.gradcache import CachedContext, CachedTexts

CPU = torch.device("cpu")


def tokens(case, side):
    ids, mask = case.inputs[f"{side}_input_ids"], case.inputs[f"{side}_attention_mask"].bool()
    return [row[real].numpy().astype(np.int32) for row, real in zip(ids, mask, strict=True)]


@pytest.mark.parametrize("tokens_at_once", [1, 40, 10_000])
def test_chunks_give_the_gradients_of_the_authors_code(reference, tokens_at_once):
    case = reference("gradcache")
    model = case.model
    chunks = {"device": CPU, "tokens_at_once": tokens_at_once}
    first = CachedTexts(model.read_context, tokens(case, "ctx"), **chunks)
    context = CachedContext(model.prepare, first.forward())
    sides = [
        CachedTexts(lambda i, m: model(i, m, context.prepared), tokens(case, side), **chunks)
        for side in ("query", "doc")
    ]
    queries, documents = (side.forward().requires_grad_() for side in sides)
    logits = F.normalize(queries, dim=-1) @ F.normalize(documents, dim=-1).T / 0.02
    loss = F.cross_entropy(logits, torch.arange(len(queries)))
    loss.backward()
    for side, vectors in zip(sides, (queries, documents), strict=True):
        side.backward(vectors.grad)
    first.backward(context.backward())

    assert loss.item() == pytest.approx(case.outputs[""].item(), rel=1e-5)
    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
    }
    for name, gradient in export_contextual(gradients, model.config).items():
        expected = case.outputs[name]
        assert (gradient - expected).norm() <= 1e-4 * expected.norm() + 1e-9, name


def random_texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(5, 60, size=rng.integers(3, 12)).astype(np.int32) for _ in range(count)]


def gradients_of(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_every_chunk_of_the_first_stage_contributes(contextual):
    """A known bug elsewhere: all chunks but the first two are dropped."""
    model, texts = contextual("nomic"), random_texts(6)
    weights = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    for left_out in range(6):
        model.zero_grad()
        first = CachedTexts(model.read_context, texts, device=CPU, tokens_at_once=1)
        first.forward()
        only = torch.zeros(6, 32)
        only[left_out] = weights[left_out]
        first.backward(only)
        norms = [gradient.norm() for gradient in gradients_of(model.first_stage).values()]
        assert max(norms) > 1e-3, f"chunk {left_out} sent nothing"


def test_the_second_run_draws_the_random_numbers_of_the_first(contextual):
    """What dropout kept in the forward pass is what the gradient flows through."""
    found = []
    for keep_graphs in (True, False):  # with its graph kept, a chunk runs once
        model = contextual("nomic").train()
        set_dropout(model, 0.4)
        torch.manual_seed(7)
        cached = CachedTexts(
            model.read_context,
            random_texts(9),
            device=CPU,
            tokens_at_once=30,
            keep_graphs=keep_graphs,
        )
        vectors = cached.forward()
        torch.rand(5)  # whatever happens in between
        cached.backward(torch.ones_like(vectors))
        found.append((vectors, gradients_of(model)))
    (once, direct), (twice, again) = found
    torch.testing.assert_close(once, twice)
    for name, gradient in direct.items():
        torch.testing.assert_close(again[name], gradient, msg=name)


def test_drawing_again_leaves_the_random_numbers_that_follow_alone(contextual):
    model = contextual("nomic").train()
    set_dropout(model, 0.4)
    torch.manual_seed(7)
    cached = CachedTexts(model.read_context, random_texts(4), device=CPU, tokens_at_once=20)
    vectors = cached.forward()
    expected = torch.get_rng_state()
    cached.backward(torch.ones_like(vectors))
    assert torch.equal(torch.get_rng_state(), expected)


def test_graphs_do_not_outlive_their_chunk(contextual):
    """The most that is alive during the backward pass is one chunk's graph."""
    model, alive, most = contextual("nomic"), 0, 0

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            nonlocal alive, most
            if ctx.needs_input_grad[0]:
                alive += 1
                most = max(most, alive)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            nonlocal alive
            alive -= 1
            return gradient

    cached = CachedTexts(
        lambda ids, mask: Counted.apply(model.read_context(ids, mask)),
        random_texts(8),
        device=CPU,
        tokens_at_once=12,
    )
    cached.backward(torch.ones_like(cached.forward()))
    assert (alive, most) == (0, 1)
