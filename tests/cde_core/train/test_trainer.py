"""Runs that are killed, stopped, damaged or shared end as the one that was left in peace."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import cde_core.train.trainer as trainer
from cde_core.errors import ConfigError, DataError, ModelError, TrainingError
from cde_core.locks import the_only_process
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.recipe import Recipe, to_yaml, with_values
from cde_core.train.trainer import train
from tests.cde_core.conftest import BACKBONES, WORDS, shaken

STEPS = 9


@pytest.fixture
def recipe(tmp_path, tokenizer):
    """Nine steps on 120 pairs about six subjects, the last in a second epoch; not yet placed."""
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    torch.manual_seed(0)
    save(
        TextEncoder(shaken(Biencoder(config), by=0.02), reader_for(config, tokenizer)),
        tmp_path / "start",
    )
    rng = np.random.default_rng(0)
    subjects = np.array(WORDS[9:39]).reshape(6, 5)
    with (tmp_path / "pairs.jsonl").open("w") as file:
        for number in range(120):
            words = subjects[number % 6]
            row = {
                "query": " ".join(rng.choice(words, 3)),
                "document": " ".join(rng.choice(words, 6)),
                "negatives": [" ".join(rng.choice(words, 4))] * (number % 2),
            }
            file.write(json.dumps(row) + "\n")
    values = {
        "steps": STEPS,
        "seed": 5,
        "precision": "float32",
        "device": "cpu",
        "data": {"sources": [str(tmp_path / "pairs.jsonl")]},
        "model": {
            "backbone": str(tmp_path / "start"),
            "context_documents": 6,
            "max_length": 16,
            "sequence_dropout": 0.1,
            "dropout": 0.1,
        },
        "clusters": {"size": 20, "surrogate": "tfidf"},
        "filter": {"surrogate": "clusters"},
        "batches": {"size": 15, "hard_negatives": 1, "tokens_at_once": 100},
        "optimiser": {"learning_rate": 1e-3, "warmup": 2},
        "loss": {"temperature": 0.1},
        "checkpoints": {"every": 2},
    }
    return with_values(Recipe(), values, where="the test")


def placed(recipe, output, **changes):
    return dataclasses.replace(recipe, output=output, **changes)


def weights_of(output):
    return (output / "model" / "model.safetensors").read_bytes()


def metrics_of(output):
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.fixture
def in_peace(recipe, tmp_path):
    output = tmp_path / "in-peace"
    train(placed(recipe, output))
    return output


def test_the_loss_falls(recipe, tmp_path):
    """In random batches, where subjects differ; within a cluster these texts are all alike."""
    clusters = dataclasses.replace(recipe.clusters, size=0)
    train(placed(recipe, tmp_path / "falls", clusters=clusters, steps=40))
    losses = [row["loss"] for row in metrics_of(tmp_path / "falls")]
    assert len(losses) == 40
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_what_comes_out_is_a_model_whose_folder_says_how_it_was_made(in_peace, recipe):
    model = load(in_peace / "model", device="cpu")
    assert model.context_size == 6 and model.model.config.logit_scale == 10
    result = json.loads((in_peace / "result.json").read_text())
    assert result["steps"] == STEPS and result["pairs"] == 120 and result["loss"] > 0
    assert "learning_rate: 0.001" in (in_peace / "recipe.yaml").read_text()
    assert sorted(p.name for p in in_peace.iterdir() if p.name != ".lock") == [
        *("checkpoints", "metrics.jsonl", "model", "recipe.yaml", "result.json")
    ]


class Killed(BaseException):
    """Nothing in the program catches this."""


def dies_after(recipe, output, step, monkeypatch):
    """Train up to a step, and die before it is saved."""
    taken = trainer.Run._step

    def dies(self, batch, *rest):
        taken(self, batch, *rest)
        if batch.plan.step == step:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(trainer.Run, "_step", dies)
        train(placed(recipe, output))


@pytest.mark.parametrize("step", [0, 1, 2, 5, 8])
def test_a_run_that_died_at_any_step_ends_with_the_same_weights(
    recipe, in_peace, tmp_path, monkeypatch, step
):
    output = tmp_path / "killed"
    dies_after(recipe, output, step, monkeypatch)
    train(placed(recipe, output))
    assert weights_of(output) == weights_of(in_peace)
    assert metrics_of(output) == metrics_of(in_peace)


def command(recipe, output, tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(to_yaml(recipe))
    return [sys.executable, "-m", "cde_core.cli", str(file), "--output", str(output)]


def signalled(recipe, output, tmp_path, number):
    """Start the command, and send it a signal once it has said that it has done step 3."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command(recipe, output, tmp_path), stderr=subprocess.PIPE, text=True, env=environment
    ) as run:
        said = []
        for line in run.stderr:
            said.append(line)
            if line.startswith("step 3 "):
                run.send_signal(number)
        return run.wait(), "".join(said)


def test_a_run_killed_by_the_system_ends_with_the_same_weights(recipe, in_peace, tmp_path):
    output = tmp_path / "killed"
    code, _ = signalled(recipe, output, tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL and not (output / "model").exists()
    train(placed(recipe, output))
    assert weights_of(output) == weights_of(in_peace)
    assert metrics_of(output) == metrics_of(in_peace)


def test_a_run_told_to_stop_saves_and_leaves(recipe, in_peace, tmp_path):
    output = tmp_path / "stopped"
    code, said = signalled(recipe, output, tmp_path, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM and "stopped after step" in said
    stopped_after = int(said.split("stopped after step ")[1].split(";")[0])
    assert (output / "checkpoints" / f"step-{stopped_after:07d}").is_dir()
    assert not list((output / "checkpoints").glob("*.unfinished"))
    train(placed(recipe, output))
    assert weights_of(output) == weights_of(in_peace)


def test_a_damaged_checkpoint_is_said_and_the_one_before_is_used(
    recipe, in_peace, tmp_path, monkeypatch, capsys
):
    output = tmp_path / "damaged"
    dies_after(recipe, output, 6, monkeypatch)
    newest = output / "checkpoints" / "step-0000006" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    train(placed(recipe, output))
    said = capsys.readouterr().err
    assert "step-0000006" in said and "going on after step 4" in said
    assert weights_of(output) == weights_of(in_peace)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(
    recipe, tmp_path, monkeypatch
):
    output, taken = tmp_path / "nan", trainer.batch_gradient

    def breaks(encoder, plan, *rest, **settings):
        report = taken(encoder, plan, *rest, **settings)
        return dataclasses.replace(report, loss=math.nan) if plan.step == 6 else report

    monkeypatch.setattr(trainer, "batch_gradient", breaks)
    with pytest.raises(TrainingError, match=r"The loss of step 7 is not a number.*after step 6\b"):
        train(placed(recipe, output))
    kept = load(output / "checkpoints" / "step-0000006", device="cpu")
    assert all(torch.isfinite(parameter).all() for parameter in kept.model.parameters())


def test_a_learning_rate_that_explodes_is_noticed(recipe, tmp_path):
    explosive = dataclasses.replace(recipe.optimiser, learning_rate=1e30, clip=1e30)
    with pytest.raises(TrainingError, match="is not a number"):
        train(placed(recipe, tmp_path / "exploded", optimiser=explosive))


def test_a_folder_with_another_recipe_is_refused_with_the_difference(recipe, in_peace):
    with pytest.raises(ConfigError, match=r"steps: 9 there, 10 here"):
        train(placed(recipe, in_peace, steps=10))


def test_a_folder_with_something_else_is_refused(recipe, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match="holds no run"):
        train(placed(recipe, tmp_path / "mine"))


def test_a_run_whose_data_changed_is_not_continued(recipe, tmp_path, monkeypatch):
    output = tmp_path / "changed"
    dies_after(recipe, output, 3, monkeypatch)
    source = Path(recipe.data.sources[0])
    source.write_text("".join(source.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ConfigError, match=r"The data of .* changed since its run began"):
        train(placed(recipe, output))


def test_a_backbone_that_is_not_there_is_said_before_the_pairs_are_read(recipe, tmp_path):
    values = {"model.backbone": str(tmp_path / "nowhere"), "data.sources": ["nothing.jsonl"]}
    wrong = with_values(recipe, values, where="the test")
    with pytest.raises(ModelError, match="nowhere"):
        train(dataclasses.replace(wrong, output=tmp_path / "run"))


def test_a_run_that_never_began_leaves_its_folder_to_others(recipe, tmp_path):
    nothing = dataclasses.replace(recipe.data, sources=(str(tmp_path / "nothing.jsonl"),))
    with pytest.raises(DataError, match=r"nothing\.jsonl"):
        train(placed(recipe, tmp_path / "typo", data=nothing))
    train(placed(recipe, tmp_path / "typo", steps=1))


def test_two_runs_cannot_share_a_folder(recipe, tmp_path):
    output = tmp_path / "busy"
    output.mkdir()
    with the_only_process(output / ".lock", "-"):
        with pytest.raises(ConfigError, match="Another process is training in"):
            train(placed(recipe, output))
    train(placed(recipe, output, steps=1))


def test_what_cannot_be_a_folder_is_said(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "locked" / ".lock").mkdir(parents=True)  # which no process can open
    for output in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "locked"):
        with pytest.raises(ConfigError, match="cannot be the folder of a run"):
            train(placed(recipe, output))


def test_a_biencoder_has_no_first_stage_to_freeze(recipe, tmp_path):
    model = dataclasses.replace(recipe.model, kind="biencoder", freeze=("first_stage.backbone",))
    train(placed(recipe, tmp_path / "frozen", steps=1, model=model))


def test_frozen_parts_stay_as_they_are(recipe, tmp_path):
    model = dataclasses.replace(recipe.model, freeze=("first_stage.backbone",))
    train(placed(recipe, tmp_path / "frozen", steps=3, model=model))
    start = load(recipe.model.backbone, device="cpu").model.backbone.state_dict()
    after = load(tmp_path / "frozen" / "model", device="cpu").model
    for name, tensor in after.first_stage.backbone.state_dict().items():
        assert torch.equal(tensor, start[name]), name
    assert not torch.equal(after.backbone.words.weight, start["words.weight"])


def test_a_finished_run_is_not_run_again(recipe, in_peace, monkeypatch):
    monkeypatch.setattr(trainer, "Run", None)
    before = weights_of(in_peace)
    assert train(placed(recipe, in_peace)) == in_peace / "model"
    assert weights_of(in_peace) == before


def test_a_finished_run_that_lost_its_log_says_what_is_left_to_say(recipe, in_peace):
    before = weights_of(in_peace)
    for name in ("metrics.jsonl", "result.json"):
        (in_peace / name).unlink()
    train(placed(recipe, in_peace))
    result = json.loads((in_peace / "result.json").read_text())
    assert result["steps"] == STEPS and "loss" not in result
    assert weights_of(in_peace) == before


def test_no_batch_at_all_is_said_with_the_size_that_works(recipe, tmp_path):
    large = dataclasses.replace(recipe.batches, size=500)
    with pytest.raises(ConfigError, match="there are 120 pairs at most"):
        train(placed(recipe, tmp_path / "large", batches=large))


@pytest.mark.parametrize("kind", ["biencoder", "joint", "prefix"])
def test_every_kind_of_model_trains_without_clusters_too(recipe, tmp_path, kind):
    changes = {"kind": "biencoder"} if kind == "biencoder" else {"attention": kind}
    model = dataclasses.replace(recipe.model, **changes)
    clusters = dataclasses.replace(recipe.clusters, size=0)
    output = tmp_path / kind
    train(placed(recipe, output, steps=2, model=model, clusters=clusters))
    assert load(output / "model", device="cpu").context_size == (0 if kind == "biencoder" else 6)


def test_training_reads_less_of_a_text_than_the_model_does(recipe, tmp_path, monkeypatch):
    lengths, taken = [], trainer.batch_gradient

    def notes(encoder, *rest, **settings):
        lengths.append(encoder.reader.max_length)
        return taken(encoder, *rest, **settings)

    monkeypatch.setattr(trainer, "batch_gradient", notes)
    model = dataclasses.replace(recipe.model, train_length=5)
    train(placed(recipe, tmp_path / "short", steps=2, model=model))
    assert lengths == [5, 5]
    assert load(tmp_path / "short" / "model", device="cpu").reader.max_length == 16


def test_a_second_phase_starts_where_the_first_ended(recipe, in_peace, tmp_path):
    model = dataclasses.replace(recipe.model, backbone=str(in_peace / "model"))
    still = dataclasses.replace(recipe.optimiser, learning_rate=1e-12, weight_decay=0.0)
    train(placed(recipe, tmp_path / "second", steps=1, model=model, optimiser=still))
    first, second = (
        load(place / "model", device="cpu").model.state_dict()
        for place in (in_peace, tmp_path / "second")
    )
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, atol=1e-6, rtol=0)


def test_scores_in_between_are_logged_and_change_nothing(recipe, in_peace, tmp_path, monkeypatch):
    asked = []

    def evaluate(encoder, settings):
        assert not encoder.model.training
        asked.append(settings.tasks)
        torch.rand(3)
        return {"Toy": 0.25}

    monkeypatch.setattr(trainer, "plugin", lambda group, name: evaluate)
    evaluation = dataclasses.replace(recipe.evaluation, every=4, tasks=("Toy",))
    output = tmp_path / "evaluated"
    train(placed(recipe, output, evaluation=evaluation))
    scored = [row["step"] for row in metrics_of(output) if "scores" in row]
    assert scored == [0, 4, 8, 9] and asked == [("Toy",)] * 4
    assert json.loads((output / "result.json").read_text())["scores"] == {"Toy": 0.25}
    assert weights_of(output) == weights_of(in_peace)


def test_two_processes_train_the_model_of_one(recipe, tmp_path):
    """Without dropout, whose random numbers are each process's own."""
    model = dataclasses.replace(recipe.model, dropout=0.0)
    alone, both = tmp_path / "alone", tmp_path / "both"
    train(placed(recipe, alone, model=model))
    (tmp_path / "recipe.yaml").write_text(to_yaml(placed(recipe, both, model=model)))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*torchrun, "--nproc-per-node", "2", "-m", "cde_core.cli", str(tmp_path / "recipe.yaml")],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    first, second = (
        load(place / "model", device="cpu").model.state_dict() for place in (alone, both)
    )
    # Adam divides by a gradient's own size, so where that is nothing but rounding, so is the step.
    for name, tensor in first.items():
        assert (second[name] - tensor).norm() <= 1e-2 * tensor.norm() + 1e-3, name
    losses = [[row["loss"] for row in metrics_of(place)] for place in (alone, both)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
