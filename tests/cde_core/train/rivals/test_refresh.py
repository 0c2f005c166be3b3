"""A run that mines its own negatives: what it finds, and that killing it changes nothing."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import cde_core.train.trainer as trainer
from cde_core.errors import ConfigError, TrainingError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.recipe import NegativesConfig, Recipe, digest, plain, to_yaml, with_values
from cde_core.train.batching import surrogates
from cde_core.train.batching.tfidf import TfidfSurrogate
from cde_core.train.preparation import read_pairs
from cde_core.train.rivals import each_pair, mining
from cde_core.train.rivals.judges import judge_named
from cde_core.train.rivals.mining import Mining, mined_in_cache
from cde_core.train.trainer import train
from tests.cde_core.conftest import BACKBONES, WORDS, shaken

EPOCH = 4
"""Steps: 40 pairs in batches of 10, in two domains."""


@pytest.fixture
def recipe(tmp_path, tokenizer):
    """Nine steps, so that negatives are found three times; prefixes, and a filter by TF-IDF."""
    backbone = dataclasses.replace(BACKBONES["bert"], layers=2)
    config = BiencoderConfig(backbone=backbone, max_length=32)
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(Biencoder(config), by=0.05), reader_for(config, tokenizer))
    save(encoder, tmp_path / "start")
    rng = np.random.default_rng(0)
    with (tmp_path / "pairs.jsonl").open("w") as file:
        for number in range(40):
            row = {
                "query": " ".join(rng.choice(WORDS[9:], 3)),
                "document": " ".join(rng.choice(WORDS[9:], 6)),
                "domain": "ab"[number % 2],
            }
            file.write(json.dumps(row) + "\n")
    values = {
        "steps": 2 * EPOCH + 1,
        "seed": 5,
        "precision": "float32",
        "device": "cpu",
        "data": {"sources": [str(tmp_path / "pairs.jsonl")]},
        "model": {"backbone": str(tmp_path / "start"), "kind": "biencoder", "max_length": 16},
        "clusters": {"size": 0},
        "filter": {"surrogate": "tfidf"},
        "batches": {"size": 10, "hard_negatives": 2, "tokens_at_once": 100},
        "optimiser": {"learning_rate": 1e-2, "warmup": 1},
        "loss": {"temperature": 0.1},
        "checkpoints": {"every": 3, "keep": 9},
        "negatives": {"every_epochs": 1, "per_query": 3, "depth": 8},
    }
    return with_values(Recipe(), values, where="the test")


def placed(recipe, output, **changes):
    return dataclasses.replace(recipe, output=output, **changes)


def negatives_of(output):
    folders = sorted((output / "negatives").iterdir())
    return {folder.name: np.load(folder / "answers.npy") for folder in folders}


def same_runs(one, other):
    weights = [(run / "model" / "model.safetensors").read_bytes() for run in (one, other)]
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (one, other)
    ]
    found = [negatives_of(run) for run in (one, other)]
    return (
        weights[0] == weights[1]
        and losses[0] == losses[1]
        and found[0].keys() == found[1].keys()
        and all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    )


@pytest.fixture
def in_peace(recipe, tmp_path):
    train(placed(recipe, tmp_path / "in-peace"))
    return tmp_path / "in-peace"


def contextual(recipe):
    model = dataclasses.replace(recipe.model, kind="contextual", context_documents=6)
    return dataclasses.replace(recipe, model=model)


@pytest.mark.parametrize("change", [lambda recipe: recipe, contextual])
def test_finds_what_mine_finds_with_the_checkpoint(recipe, tmp_path, change):
    recipe = change(recipe)
    output = tmp_path / "run"
    train(placed(recipe, output))
    found = negatives_of(output)
    assert list(found) == ["step-0000000", "step-0000004", "step-0000008"]
    assert not np.array_equal(found["step-0000000"], found["step-0000008"])
    pairs = read_pairs(recipe.data, lambda line: None)
    for step in ("step-0000004", "step-0000008"):
        checkpoint = str(output / "checkpoints" / step)
        judge = judge_named(checkpoint, pairs=pairs, device="cpu", seed=5)
        settings = Mining(negatives=3, depth=8, seed=5)
        expected = mined_in_cache(pairs, judge, settings, cache=tmp_path / "cache")
        assert np.array_equal(found[step], expected)


def test_batches_have_the_negatives_that_were_found_last(recipe, tmp_path, monkeypatch):
    batches, taken = [], trainer.Run._step

    def sees(self, batch, *rest):
        batches.append((batch.plan, batch.texts))
        taken(self, batch, *rest)

    monkeypatch.setattr(trainer.Run, "_step", sees)
    train(placed(recipe, tmp_path / "run"))
    found, pairs = negatives_of(tmp_path / "run"), read_pairs(recipe.data, lambda line: None)
    for plan, texts in batches:
        those = found[f"step-{plan.step // EPOCH * EPOCH:07d}"]
        for query, row in enumerate(plan.rows):
            columns = np.flatnonzero(plan.owners == query)[1:]
            assert len(columns) == 2  # of the three that were found
            assert {texts.documents[c] for c in columns} <= set(pairs.documents(those[row]))


def test_pairs_and_vectors_borrow_the_same_documents(recipe, tmp_path):
    pairs = read_pairs(recipe.data, lambda line: None)
    vectors = surrogates.embed_pairs(
        pairs, surrogate := TfidfSurrogate(pairs, dimensions=5), cache=tmp_path / "cache"
    )
    rows = np.full((40, 2), -1)
    rows[3], rows[7, 0] = (20, 11), 5
    borrowed, of_them = pairs.borrowing(rows), vectors.borrowing(rows)
    assert borrowed[3].negatives == (pairs[20].document, pairs[11].document)
    assert borrowed[7].negatives == (pairs[5].document,) and borrowed[8].negatives == ()
    assert borrowed.queries(range(40)) == pairs.queries(range(40))
    assert borrowed.digest != pairs.digest and of_them.digest != vectors.digest
    texts = borrowed.negatives(np.array([2, 0]))
    expected = surrogate.encode(texts, "document")
    assert of_them.negatives[np.array([2, 0])] == pytest.approx(expected, abs=1e-6)


class Killed(BaseException):
    """Nothing in the program catches this."""


@pytest.mark.parametrize("step", [0, 3, 4, 6])
def test_a_run_that_died_at_any_step_ends_with_the_same_weights(
    recipe, in_peace, tmp_path, monkeypatch, step
):
    taken = trainer.Run._step

    def dies(self, batch, *rest):
        taken(self, batch, *rest)
        if batch.plan.step == step:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(trainer.Run, "_step", dies)
        train(placed(recipe, tmp_path / "killed"))
    train(placed(recipe, tmp_path / "killed"))
    assert same_runs(tmp_path / "killed", in_peace)


@pytest.mark.parametrize(("place", "calls"), [("embeds", 5), ("searches", 1), ("searches", 6)])
def test_a_run_that_died_while_its_model_searched_ends_with_the_same_weights(
    recipe, in_peace, tmp_path, monkeypatch, place, calls
):
    module, name = {
        "embeds": (surrogates, "_vectors_of"),
        "searches": (mining, "highest"),
    }[place]
    real, left = getattr(module, name), [calls]

    def dies(*asked, **settings):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return real(*asked, **settings)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(module, name, dies)
        patched.setattr(each_pair, "PAIRS_AT_ONCE", 7)
        train(placed(recipe, tmp_path / "killed"))
    assert not (tmp_path / "killed" / "model").exists()
    train(placed(recipe, tmp_path / "killed"))
    assert same_runs(tmp_path / "killed", in_peace)
    assert not list((tmp_path / "killed" / "negatives").glob("*.unfinished"))


@pytest.mark.slow
def test_one_of_two_processes_finds_them_for_both(recipe, in_peace, tmp_path):
    output = tmp_path / "both"
    (tmp_path / "recipe.yaml").write_text(to_yaml(placed(recipe, output)))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*torchrun, "--nproc-per-node", "2", "-m", "cde_core.cli", str(tmp_path / "recipe.yaml")],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    first, second = negatives_of(in_peace), negatives_of(output)
    assert first.keys() == second.keys()
    assert np.array_equal(first["step-0000000"], second["step-0000000"])
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (in_peace, output)
    ]
    assert losses[1][:EPOCH] == pytest.approx(losses[0][:EPOCH], rel=1e-3)


def test_negatives_that_are_gone_in_the_middle_of_an_epoch_are_said(recipe, tmp_path):
    output = tmp_path / "gone"
    train(placed(recipe, output))
    shutil.rmtree(output / "model")
    (output / "result.json").unlink()
    for late in ("step-0000008", "step-0000009"):
        shutil.rmtree(output / "checkpoints" / late)
    found = output / "negatives" / "step-0000004" / "answers.npy"
    found.write_bytes(found.read_bytes()[:-1] + b"?")
    with pytest.raises(TrainingError, match=r"step-0000004 is missing or damaged.*after step 4\."):
        train(placed(recipe, output))
    shutil.rmtree(output / "checkpoints" / "step-0000006")  # then it goes on from step 4
    train(placed(recipe, output))
    assert (output / "model").exists()


def test_a_run_may_begin_with_the_negatives_of_its_data(recipe, tmp_path):
    later = dataclasses.replace(recipe.negatives, at_start=False)
    with pytest.raises(ConfigError, match=r"hard_negatives is 2, but no pair has any"):
        train(placed(recipe, tmp_path / "none", negatives=later))
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    lines = [json.dumps({**row, "negatives": ["the cat"]}) + "\n" for row in rows]
    (tmp_path / "pairs.jsonl").write_text("".join(lines))
    train(placed(recipe, tmp_path / "later", negatives=later))
    assert list(negatives_of(tmp_path / "later")) == ["step-0000004", "step-0000008"]


def test_negatives_that_no_step_would_use_are_refused(recipe):
    batches = dataclasses.replace(recipe.batches, hard_negatives=0)
    with pytest.raises(ConfigError, match=r"batches\.hard_negatives is 0.*set it to 3"):
        dataclasses.replace(recipe, batches=batches)


def test_a_run_without_them_is_the_run_that_it_was_before_there_were_any(recipe):
    before = dataclasses.replace(recipe, negatives=NegativesConfig())
    assert digest(before) != digest(recipe)
    values = plain(before)
    del values["negatives"]
    again = with_values(Recipe(), values, where="a recipe of then")
    assert digest(again) == digest(before)
    assert "negatives" in plain(again)
