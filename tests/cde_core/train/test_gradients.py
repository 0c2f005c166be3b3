"""A batch's gradient equals plain autograd's, whatever the chunks and the processes."""

import numpy as np
import pytest
import torch
import torch.multiprocessing
import torch.nn.functional as F

from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.tokens import pad
from cde_core.train.batching.batches import plan_batch, texts_of
from cde_core.train.batching.filtering import Filter
from cde_core.train.data.pairs import Pair, Pairs, write_pairs
from cde_core.train.distributed import World
from cde_core.train.gradients import HowToCompute, batch_gradient
from cde_core.train.objectives.contrastive import Contrastive
from tests.cde_core.conftest import BACKBONES, WORDS, shaken

KINDS = ("biencoder", "prefix", "joint", "two vectors per document")


@pytest.fixture
def pairs(tmp_path):
    rng = np.random.default_rng(0)

    def text():
        return " ".join(rng.choice(WORDS[9:], size=rng.integers(2, 9)))

    made = [
        Pair(text(), text(), tuple(text() for _ in range(i % 3)), "odd" if i % 2 else "even")
        for i in range(20)
    ]
    return write_pairs(made, tmp_path / "pairs")


@pytest.fixture
def model_of(encoder, tokenizer):
    def build(kind):
        if kind == "biencoder":
            config = BiencoderConfig(backbone=BACKBONES["nomic"], max_length=32, prefixes=True)
            torch.manual_seed(0)
            return TextEncoder(shaken(Biencoder(config)), reader_for(config, tokenizer))
        attention = "joint" if kind == "joint" else "prefix"
        bias = -0.5 if kind == "prefix" else None
        return encoder(
            context_attention=attention,
            null_context=True,
            context_bias_init=bias,
            tokens_per_document=2 if kind == "two vectors per document" else 1,
        )

    return build


def plan_for(encoder, pairs, **changes):
    settings = {
        "step": 3,
        "seed": 1,
        "hard_negatives": 2,
        "context_documents": encoder.context_size,
        "tokens_per_document": getattr(encoder.model.config, "tokens_per_document", 1),
        "sequence_dropout": 0.3,
        **changes,
    }
    return plan_batch(np.arange(2, 14), pairs, **settings)


def by_hand(encoder, plan, texts, masked=None, temperature=0.1):
    """The loss in one piece, through plain autograd."""
    model, read = encoder.model, encoder.reader.read
    everything = np.arange(len(plan.rows)), np.arange(len(plan.owners))
    asked, found = texts.prefixed_queries(everything[0]), texts.prefixed_documents(everything[1])
    prepared = [(), ()]
    if plan.contexts:
        vectors = model.read_context(*pad(read(found))).view(len(found), -1, 32)
        read_by = [vectors[side.documents].flatten(0, 1) for side in plan.contexts]
        prepared = [
            (model.prepare(model.replace_by_null(seen, torch.tensor(side.dropped))),)
            for seen, side in zip(read_by, plan.contexts, strict=True)
        ]
    queries = model(*pad(read(asked)), *prepared[0])
    documents = model(*pad(read(found)), *prepared[1])
    logits = F.normalize(queries, dim=-1) @ F.normalize(documents, dim=-1).T / temperature
    if masked is not None:
        logits = logits.masked_fill(masked, float("-inf"))
    loss = F.cross_entropy(logits, torch.arange(len(plan.rows)))
    loss.backward()
    right = (logits.argmax(dim=1) == torch.arange(len(plan.rows))).float().mean().item()
    return loss.item(), right, taken_gradients(model)


def taken_gradients(model):
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def assert_same_gradients(ours, expected, tolerance=1e-4):
    largest = max(gradient.norm() for gradient in expected.values())
    for name, gradient in expected.items():
        difference = (ours[name] - gradient).norm()
        assert difference <= tolerance * gradient.norm() + 1e-7 * largest, name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "how", [{"tokens_at_once": 25}, {"tokens_at_once": 90, "keep_graphs": True}]
)
def test_chunks_give_the_gradient_of_the_batch_in_one_piece(model_of, pairs, kind, how):
    encoder = model_of(kind)
    plan = plan_for(encoder, pairs)
    texts = texts_of(plan, pairs, {})
    loss, right, expected = by_hand(encoder, plan, texts)
    report = batch_gradient(
        encoder,
        plan,
        texts,
        Filter(duplicates=False).masks(plan, texts),
        objective=Contrastive(0.1),
        how=HowToCompute(**how),
    )
    assert report.loss == pytest.approx(loss, rel=1e-5)
    assert report.measures["accuracy"] == pytest.approx(right)
    assert_same_gradients(taken_gradients(encoder.model), expected)


def test_what_the_filter_ignores_is_in_no_gradient(model_of, pairs):
    encoder = model_of("prefix")
    plan = plan_for(encoder, pairs)
    texts = texts_of(plan, pairs, {})
    ignored = torch.rand(12, len(plan.owners), generator=torch.Generator().manual_seed(0)) < 0.3
    ignored &= ~plan.columns.own
    loss, _, expected = by_hand(encoder, plan, texts, masked=ignored)
    report = batch_gradient(
        encoder,
        plan,
        texts,
        lambda rows: ignored[torch.from_numpy(rows)],
        objective=Contrastive(0.1),
    )
    assert report.loss == pytest.approx(loss, rel=1e-5)
    assert report.measures["ignored"] == pytest.approx(ignored.float().mean().item())
    assert_same_gradients(taken_gradients(encoder.model), expected)


def test_gradients_in_bfloat16_point_the_same_way(model_of, pairs):
    encoder = model_of("prefix")
    plan = plan_for(encoder, pairs)
    texts = texts_of(plan, pairs, {})
    _, _, expected = by_hand(encoder, plan, texts, temperature=0.5)
    batch_gradient(
        encoder,
        plan,
        texts,
        Filter(duplicates=False).masks(plan, texts),
        objective=Contrastive(0.5),
        how=HowToCompute(precision=torch.bfloat16),
    )
    ours = taken_gradients(encoder.model)
    flat = [torch.cat([g[name].flatten() for name in expected]) for g in (ours, expected)]
    assert F.cosine_similarity(*flat, dim=0) > 0.95
    assert all(gradient.dtype == torch.float32 for gradient in ours.values())


def one_of_two(rank, folder, port, share_negatives):
    """What each process does; processes find model, pairs and plan on disk."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    encoder, pairs = load(folder / "model", device="cpu", cache=None), Pairs.open(folder / "pairs")
    plan = plan_for(encoder, pairs)
    texts = texts_of(plan, pairs, {})
    report = batch_gradient(
        encoder,
        plan,
        texts,
        Filter().masks(plan, texts),
        objective=Contrastive(0.1),
        share_negatives=share_negatives,
        how=HowToCompute(tokens_at_once=40),
        world=World(rank=rank, size=2),
    )
    torch.save((report, taken_gradients(encoder.model)), folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("share_negatives", [True, False], ids=["shared", "own"])
def test_two_processes_give_the_gradient_of_one(model_of, pairs, tmp_path, share_negatives):
    encoder = model_of("prefix")
    save(encoder, tmp_path / "model")
    plan = plan_for(encoder, pairs)
    texts = texts_of(plan, pairs, {})
    masked = Filter().masks(plan, texts)(np.arange(12))
    masked = torch.zeros(12, len(plan.owners), dtype=torch.bool) if masked is None else masked
    if not share_negatives:  # six queries each, which see only what the six brought
        halves = torch.arange(12)[:, None] // 6, torch.from_numpy(plan.owners)[None, :] // 6
        masked |= halves[0] != halves[1]
    loss, right, expected = by_hand(encoder, plan, texts, masked=masked)

    torch.multiprocessing.spawn(
        one_of_two, (tmp_path, free_port(), share_negatives), nprocs=2, join=True
    )
    for rank in range(2):
        report, gradients = torch.load(tmp_path / f"rank{rank}.pt", weights_only=False)
        assert report.loss == pytest.approx(loss, rel=1e-5)
        assert report.measures["accuracy"] == pytest.approx(right)
        assert_same_gradients(gradients, expected)
