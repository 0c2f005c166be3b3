"""Through the model: chunks, and processes, give every objective's gradient of the batch."""

import numpy as np
import pytest
import torch
import torch.multiprocessing

from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.model.transformer import set_dropout
from cde_core.recipe import LossConfig
from cde_core.tokens import pad
from cde_core.train.batching.batches import judged_of, plan_batch, texts_of
from cde_core.train.batching.filtering import Filter
from cde_core.train.data.pairs import Pair, Pairs, write_pairs
from cde_core.train.distributed import World
from cde_core.train.gradients import HowToCompute, batch_gradient
from cde_core.train.objectives.chosen import objective_for
from cde_core.train.objectives.objective import Found, Objective, Part
from tests.cde_core.conftest import BACKBONES, WORDS, shaken
from tests.cde_core.train.test_gradients import (
    assert_same_gradients,
    free_port,
    taken_gradients,
)

ROWS = np.arange(12)
NAMES = ("contrastive", "cosent", "classification", "distillation")
ALL = [*((name, ()) for name in NAMES), *((name, (32, 8)) for name in NAMES)]


def named(case):
    return "-".join(filter(None, (case[0], "matryoshka" if case[1] else "")))


@pytest.fixture
def pairs(tmp_path):
    rng = np.random.default_rng(0)

    def text():
        return " ".join(rng.choice(WORDS[9:], size=rng.integers(2, 9)))

    made = [
        Pair(
            *(text(), text(), (text(), text()), "all"),
            score=float(rng.integers(6)),
            label=str(i % 3),
            scores=tuple(rng.normal(size=3)),
        )
        for i in range(12)
    ]
    return write_pairs(made, tmp_path / "pairs")


@pytest.fixture
def encoder(tokenizer):
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    torch.manual_seed(0)
    return TextEncoder(shaken(Biencoder(config)), reader_for(config, tokenizer))


def objective_of(case):
    settings = LossConfig(objective=case[0], temperature=0.1, dimensions=case[1])
    return objective_for(settings, width=32, classes=3, seed=1)


def batch_of(case, pairs):
    needs = case[0] in ("contrastive", "distillation")
    plan = plan_batch(ROWS, pairs, step=0, seed=1, hard_negatives=2 if needs else 0)
    texts = texts_of(plan, pairs, None)
    return plan, texts, Filter(duplicates=False).masks(plan, texts)


def in_one_piece(encoder, objective, plan, texts, judged):
    """Loss and gradients through plain autograd, of all that is trained."""
    read, model = encoder.reader.read, encoder.model
    part = Part(plan.columns, judged, len(ROWS), lambda: None)
    found = objective(model(*pad(read(texts.queries))), model(*pad(read(texts.documents))), part)
    found.loss.backward()
    return found, gradients_of(encoder, objective)


def gradients_of(encoder, objective):
    layers = {f"objective.{name}": one for name, one in taken_gradients(objective).items()}
    return taken_gradients(encoder.model) | layers


@pytest.mark.parametrize("case", ALL, ids=named)
def test_the_gradient_cache_gives_the_gradient_of_the_batch_in_one_piece(encoder, pairs, case):
    objective = objective_of(case)
    plan, texts, masks = batch_of(case, pairs)
    judged = judged_of(plan, pairs)
    found, expected = in_one_piece(encoder, objective, plan, texts, judged)
    report = batch_gradient(
        *(encoder, plan, texts, masks),
        objective=objective,
        judged=judged,
        how=HowToCompute(tokens_at_once=25),
    )
    assert report.loss == pytest.approx(found.loss.item(), rel=1e-5)
    assert dict(report.measures) == pytest.approx(dict(found.measures), rel=1e-5)
    ours = gradients_of(encoder, objective)
    assert ours.keys() >= expected.keys()
    assert_same_gradients(ours, expected)


def each_of_two(rank, folder, port):
    """What each process does, for one objective after the other."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    encoder, pairs = load(folder / "model", device="cpu", cache=None), Pairs.open(folder / "pairs")
    found = {}
    for case in ALL:
        objective = objective_of(case)
        plan, texts, masks = batch_of(case, pairs)
        report = batch_gradient(
            *(encoder, plan, texts, masks),
            objective=objective,
            judged=judged_of(plan, pairs),
            how=HowToCompute(tokens_at_once=40),
            world=World(rank=rank, size=2),
        )
        found[named(case)] = (report, gradients_of(encoder, objective))
    torch.save(found, folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_give_the_gradient_of_one_whatever_the_objective(encoder, pairs, tmp_path):
    save(encoder, tmp_path / "model")
    torch.multiprocessing.spawn(each_of_two, (tmp_path, free_port()), nprocs=2, join=True)
    found = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=False) for rank in range(2)]
    for case in ALL:
        objective = objective_of(case)
        plan, texts, _ = batch_of(case, pairs)
        alone, expected = in_one_piece(encoder, objective, plan, texts, judged_of(plan, pairs))
        for of_rank in found:
            report, gradients = of_rank[named(case)]
            assert report.loss == pytest.approx(alone.loss.item(), rel=1e-5), named(case)
            assert dict(report.measures) == pytest.approx(dict(alone.measures), rel=1e-5)
            assert_same_gradients(gradients, expected)


class Noted(Objective):
    """Keeps the vectors that it is given."""

    def forward(self, queries, documents, part):
        self.queries, self.documents, self.ignored = queries, documents, part.ignored
        return Found((queries.sum() + documents.sum()) / part.batch, {})


@pytest.mark.parametrize("dropout", [0.1, 0.0])
def test_the_two_passes_of_simcse_differ_by_dropout_and_no_answer_is_filtered(
    encoder, tmp_path, dropout
):
    texts = [f"the {word} {other}" for word, other in zip(WORDS[9:15], WORDS[20:26], strict=True)]
    pairs = write_pairs([Pair(text, text) for text in [*texts, texts[0]]], tmp_path / "twice")
    plan = plan_batch(np.arange(7), pairs, step=0, seed=0)
    read, noted = texts_of(plan, pairs, None), Noted()
    set_dropout(encoder.model.train(), dropout)
    batch_gradient(encoder, plan, read, Filter().masks(plan, read), objective=noted)
    assert torch.equal(noted.queries, noted.documents) == (dropout == 0)
    # The first text comes again as the seventh: neither counts against the other, and nothing else
    # is left out, an answer least of all.
    assert noted.ignored.nonzero().tolist() == [[0, 6], [6, 0]]
