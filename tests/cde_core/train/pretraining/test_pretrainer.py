"""From texts to a T5 that fills in their gaps, and on to a text encoder."""

import dataclasses
import json
import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import T5ForConditionalGeneration

import cde_core
from cde_core.errors import ConfigError, DataError
from cde_core.model.sentinels import sentinels_of, with_sentinels
from cde_core.recipe import (
    BatchConfig,
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    OptimiserConfig,
    Recipe,
    ScratchConfig,
)
from cde_core.train.pretraining.language_batches import LanguageBatches
from cde_core.train.pretraining.language_loss import language_gradient
from cde_core.train.pretraining.pretrainer import LanguageRun, pretrain
from cde_core.train.pretraining.token_windows import frame_of, prepare_windows
from cde_core.train.trainer import train
from tests.cde_core.conftest import WORDS
from tests.cde_core.t5_models import made, saved

VOCABULARY = len(WORDS) + 100


@pytest.fixture
def corpus(tmp_path):
    """Texts of 5 to 40 words, which repeat themselves so that there is something to learn."""
    rng = np.random.default_rng(0)
    file = tmp_path / "texts.jsonl"
    with file.open("w") as out:
        for _ in range(120):
            word, length = rng.integers(10, 40), int(rng.integers(5, 40))
            text = " ".join(WORDS[word + i % 4] for i in range(length))
            out.write(json.dumps({"text": text}) + "\n")
    return str(file)


@pytest.fixture
def t5(tmp_path, tokenizer):
    """Folder of a T5 1.1 with a tokenizer that has sentinels."""
    theirs = made(T5ForConditionalGeneration, "1.1", vocab_size=VOCABULARY)
    return str(saved(theirs, tmp_path / "t5", with_sentinels(tokenizer)))


@pytest.fixture
def recipe(corpus, t5, tmp_path):
    size = ScratchConfig(hidden=16, layers=1, heads=2, head_width=8, intermediate=32)
    return Recipe(
        task="span-corruption",
        output=tmp_path / "run",
        steps=6,
        precision="float32",
        device="cpu",
        data=DataConfig(sources=(corpus,)),
        model=ModelConfig(
            kind="biencoder", backbone=t5, scratch=size, positions="rotary", max_length=32
        ),
        batches=BatchConfig(size=4, tokens_at_once=128),
        optimiser=OptimiserConfig(learning_rate=3e-3, warmup=2, schedule="cosine"),
    )


def batches(recipe, tokenizer, cache):
    windows = prepare_windows(recipe.data, tokenizer, size=30, cache=cache)
    return LanguageBatches(windows, frame_of(tokenizer), sentinels_of(tokenizer), recipe)


def test_windows_hold_every_token_of_every_text(recipe, corpus, tokenizer, tmp_path):
    windows = prepare_windows(recipe.data, tokenizer, size=30, cache=tmp_path / "cache")
    expected = []
    with Path(corpus).open() as file:
        for line in file:
            text = json.loads(line)["text"]
            expected += [*tokenizer.encode(text, add_special_tokens=False).ids, 2]
    assert np.concatenate(list(windows)).tolist() == expected[: 30 * len(windows)]
    assert len(expected) - 30 * len(windows) < 30


def test_domains_of_texts_are_checked_and_bad_rows_are_counted_each_time(
    recipe, tokenizer, tmp_path, capsys
):
    domains = {"a": "cat dog", "b": "tax law"}
    rows = [{"query": "q", "document": text, "domain": d} for d, text in domains.items()] * 40
    file = tmp_path / "some.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"bad": 1}, {"bad": 2}]))

    def read(**settings):
        data = DataConfig(sources=(str(file),), skip_bad_rows=True, **settings)
        return prepare_windows(data, tokenizer, size=30, cache=tmp_path / "cache")

    for option in ("only_domains", "exclude_domains"):
        for _ in range(2):  # what was refused is not there the next time
            with pytest.raises(ConfigError, match=rf"{option} names 'bb', but no text .* 'b'\?"):
                read(**{option: ("bb",)})
    assert [read(exclude_domains=("b",)).bad_rows for _ in range(2)] == [2, 2]
    half = np.concatenate(list(read(exclude_domains=("b",))))
    ids = tokenizer.encode("cat dog", add_special_tokens=False).ids
    assert half.tolist() == ([*ids, 2] * 40)[: len(half)]
    # The first three are not all, so nobody can say that the name is wrong.
    assert len(read(exclude_domains=("bb",), most_per_source=30)) == 3
    data = dataclasses.replace(recipe.data, sources=(str(file),), skip_bad_rows=True)
    pretrain(dataclasses.replace(recipe, data=data, steps=1))
    assert "2 bad rows skipped" in capsys.readouterr().err


def test_tokens_of_which_nobody_said_what_was_left_out_are_made_again(recipe, tokenizer, tmp_path):
    def read(name):
        data = dataclasses.replace(recipe.data, exclude_domains=(name,))
        return prepare_windows(data, tokenizer, size=30, cache=tmp_path / "cache")

    whole = prepare_windows(recipe.data, tokenizer, size=30, cache=tmp_path / "cache")
    (said,) = (tmp_path / "cache" / "tokens").glob("?" * 32 + ".json")
    said.unlink()
    again = prepare_windows(recipe.data, tokenizer, size=30, cache=tmp_path / "cache")
    assert said.is_file() and again.digest == whole.digest
    assert np.array_equal(again.tokens, whole.tokens)
    with pytest.raises(ConfigError, match="no text has that domain"):
        read("nobody's")


def test_an_epoch_has_every_window_once_and_a_step_is_always_the_same(recipe, tokenizer, tmp_path):
    tokenizer = with_sentinels(tokenizer)
    made = batches(dataclasses.replace(recipe, steps=0), tokenizer, tmp_path / "cache")
    assert made.steps == len(made.windows) // 4
    whole = []
    for step in range(made.steps):
        for one in made.examples(step, range(4)):
            assert one.read[0] == 1 and one.read[-1] == 2 and one.said[-1] == 2
            gaps = [t for t in one.said[:-1] if t < len(WORDS)]
            whole.append(tuple(sorted([*gaps, *(t for t in one.read[1:-1] if t < len(WORDS))])))
    windows = Counter(tuple(sorted(window.tolist())) for window in made.windows)
    assert len(whole) == 4 * made.steps and not Counter(whole) - windows  # none comes twice
    again = batches(recipe, tokenizer, tmp_path / "cache").examples(3, [2])[0]
    assert np.array_equal(again.said, made.examples(3, [2])[0].said)
    assert not np.array_equal(again.said, made.examples(4, [2])[0].said)


def test_the_loss_and_its_gradient_equal_those_of_transformers(recipe, t5, tokenizer, tmp_path):
    made_batches = batches(recipe, with_sentinels(tokenizer), tmp_path / "cache")
    examples = made_batches.examples(0, range(4))
    theirs = made(T5ForConditionalGeneration, "1.1", vocab_size=VOCABULARY)
    ours = cde_core.load(t5, device="cpu").model.backbone
    report = language_gradient(ours, examples, tokens_at_once=60)  # a text or two at a time

    ids = torch.from_numpy(np.stack([one.read for one in examples])).long()
    said = torch.from_numpy(np.stack([one.said for one in examples])).long()
    expected = theirs(input_ids=ids, labels=said)
    expected.loss.backward()
    assert report.loss == pytest.approx(expected.loss.item(), rel=1e-5)
    right = (expected.logits.argmax(-1) == said).float().mean().item()
    assert report.accuracy == pytest.approx(right) and report.words == said.numel()
    for mine, other in (
        (ours.words, theirs.shared),
        (ours.layers[1].attention.out, theirs.encoder.block[1].layer[0].SelfAttention.o),
        (ours.decoder.layers[0].across.query, theirs.decoder.block[0].layer[1].EncDecAttention.q),
    ):
        torch.testing.assert_close(mine.weight.grad, other.weight.grad, atol=1e-4, rtol=1e-3)


def test_a_run_learns_and_its_model_is_the_next_stages_backbone(recipe, corpus, tmp_path):
    recipe = dataclasses.replace(recipe, steps=40)
    folder = pretrain(recipe)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert len(losses) == 40 and np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    model = cde_core.load(folder, device="cpu").model
    assert model.backbone.config.position == "rotary" and hasattr(model.backbone, "decoder")

    crops = Recipe(
        output=tmp_path / "crops",
        steps=3,
        precision="float32",
        device="cpu",
        data=DataConfig(sources=(f"crops:{corpus}",)),
        model=ModelConfig(
            kind="biencoder", backbone=str(folder), pooling="decoder", max_length=32, prefixes=False
        ),
        clusters=dataclasses.replace(recipe.clusters, size=0),
        batches=BatchConfig(size=8, across_domains="always"),
    )
    encoder = cde_core.load(train(crops), device="cpu")
    assert encoder.model.config.pooling == "decoder"
    assert encoder.encode(["tax law", "king"]).shape == (2, 16)


def test_a_run_that_was_stopped_ends_as_one_that_was_not(recipe, tmp_path, monkeypatch):
    straight = cde_core.load(pretrain(recipe), device="cpu").model.state_dict()
    other = dataclasses.replace(recipe, output=tmp_path / "stopped")
    step = LanguageRun._step

    def stopped(self, *rest):
        step(self, *rest)
        if self.done == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(LanguageRun, "_step", stopped)
    with pytest.raises(SystemExit):
        pretrain(other)
    monkeypatch.setattr(LanguageRun, "_step", step)
    resumed = cde_core.load(pretrain(other), device="cpu").model.state_dict()
    for name, tensor in straight.items():
        assert torch.equal(tensor, resumed[name]), name
    rows = [json.loads(line) for line in (tmp_path / "stopped" / "metrics.jsonl").open()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]


def test_mistakes_are_told_in_a_line(recipe, minilm, tmp_path):
    def changed(**settings):
        model = dataclasses.replace(recipe.model, **settings)
        large = BatchConfig(size=4, tokens_at_once=100_000)
        return dataclasses.replace(recipe, model=model, batches=large, output=tmp_path / "other")

    with pytest.raises(ConfigError, match="is no T5 with a decoder"):
        pretrain(changed(backbone=minilm, scratch=ScratchConfig(), positions=""))
    with pytest.raises(DataError, match="fewer than the 99,998 that a model reads at once"):
        pretrain(changed(max_length=100_000))
    with pytest.raises(ConfigError, match=r"evaluation\.every is set, but a T5 that fills in"):
        pretrain(dataclasses.replace(recipe, evaluation=EvaluationConfig(every=5)))
