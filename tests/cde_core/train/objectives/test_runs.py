"""Whole runs: layers that belong to the run, what pairs must have, what Matryoshka buys."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cde_core.errors import ConfigError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.recipe import Recipe, with_values
from cde_core.train.trainer import train
from tests.cde_core.conftest import BACKBONES, WORDS, shaken
from tests.cde_core.train.test_trainer import dies_after, metrics_of, placed, weights_of

STEPS = 6
SUBJECTS = np.array(WORDS[9:39]).reshape(6, 5)


def rows(count=60):
    rng = np.random.default_rng(0)
    for number in range(count):
        words = SUBJECTS[number % 6]
        negatives = [" ".join(rng.choice(WORDS[9:39], 4)) for _ in range(2)]
        yield {
            "query": " ".join(rng.choice(words, 3)),
            "document": " ".join(rng.choice(words, 6)),
            "negatives": negatives,
            "score": float(rng.integers(6)),
            "label": number % 3,
            "scores": rng.normal(size=3).tolist(),
        }


def written(path, made):
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return str(path)


@pytest.fixture
def recipe_for(tmp_path, tokenizer):
    config = BiencoderConfig(
        backbone=dataclasses.replace(BACKBONES["bert"], layers=2), max_length=16
    )
    torch.manual_seed(0)
    start = TextEncoder(shaken(Biencoder(config), by=0.02), reader_for(config, tokenizer))
    save(start, tmp_path / "start")

    def build(objective, **dotted):
        values = {
            "steps": STEPS,
            "precision": "float32",
            "device": "cpu",
            "data.sources": [written(tmp_path / "pairs.jsonl", rows())],
            "model": {"kind": "biencoder", "backbone": str(tmp_path / "start"), "max_length": 16},
            "clusters.size": 0,
            "batches.size": 12,
            "batches.hard_negatives": 2 if objective == "distillation" else 0,
            "optimiser": {"learning_rate": 1e-3, "new_learning_rate": 1e-2, "warmup": 2},
            "loss": {"objective": objective, "temperature": 0.1},
            "checkpoints.every": 2,
            **{name.replace("__", "."): value for name, value in dotted.items()},
        }
        return with_values(Recipe(), values, where="the test")

    return build


@pytest.mark.parametrize("objective", ["classification", "cosent", "distillation"])
def test_a_run_that_died_ends_as_one_that_did_not(recipe_for, tmp_path, monkeypatch, objective):
    recipe = recipe_for(objective, model__dropout=0.1, loss__dimensions=[32, 8])
    dies_after(recipe, tmp_path / "killed", 4, monkeypatch)
    train(placed(recipe, tmp_path / "killed"))
    train(placed(recipe, tmp_path / "in-peace"))
    assert weights_of(tmp_path / "killed") == weights_of(tmp_path / "in-peace")
    metrics = metrics_of(tmp_path / "killed")
    assert metrics == metrics_of(tmp_path / "in-peace")
    assert {"loss", "loss_32", "loss_8", "gradient_norm"} <= metrics[0].keys()


def test_a_layer_is_trained_kept_in_checkpoints_and_no_part_of_the_model(recipe_for, tmp_path):
    train(placed(recipe_for("classification"), tmp_path / "run"))
    kept = [
        load_file(tmp_path / "run" / "checkpoints" / f"step-000000{step}" / "objective.safetensors")
        for step in (4, 6)
    ]
    assert kept[0].keys() == {"layer.weight", "layer.bias"}
    assert kept[0]["layer.weight"].shape == (3, 3 * 32)
    moved = (kept[1]["layer.weight"] - kept[0]["layer.weight"]).abs()
    assert moved.max() > 1e-3  # a new part's rate, ten times the backbone's
    model = tmp_path / "run" / "model"
    assert not (model / "objective.safetensors").exists()
    assert not any("layer.weight" == name for name in load_file(model / "model.safetensors"))
    assert load(model, device="cpu").encode(["a cat"]).shape == (1, 32)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["accuracy"] >= 0


@pytest.mark.parametrize(
    ("objective", "column", "what"),
    [
        ("cosent", "score", "a score"),
        ("classification", "label", "a label"),
        ("distillation", "scores", "a teacher's scores"),
    ],
)
def test_what_the_pairs_lack_is_said_before_training(recipe_for, tmp_path, objective, column, what):
    made = list(rows())
    del made[3][column], made[9][column]
    source = written(tmp_path / "without.jsonl", made)
    recipe = recipe_for(objective, data__sources=[source])
    message = rf"{objective}, which needs {what} of every pair, but 2 of 60 have none; .*{column}"
    with pytest.raises(ConfigError, match=message):
        train(placed(recipe, tmp_path / "run"))
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_labels_that_are_not_those_of_the_recipe_are_refused(recipe_for, tmp_path):
    recipe = recipe_for("classification", loss__labels=["0", "1"])
    with pytest.raises(ConfigError, match="are 0, 1, 2, but classification is of 0, 1;"):
        train(placed(recipe, tmp_path / "run"))


def test_more_dimensions_than_there_are_is_refused(recipe_for, tmp_path):
    recipe = recipe_for("contrastive", loss__dimensions=[64, 8])
    with pytest.raises(ConfigError, match="names 64, but the model's vectors have 32"):
        train(placed(recipe, tmp_path / "run"))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"batches__hard_negatives": 1}, "cosent looks at no negatives"),
        ({"filter__surrogate": "tfidf"}, "cosent looks at no negatives that it could filter"),
        ({"data__twice": True}, "loss.objective is cosent"),
        ({"loss__dimensions": [8, 8]}, "8, 8; name each once"),
        ({"loss__dimensions": [8, 0]}, "loss.dimensions is 0"),
        ({"loss__dimensions": [8], "loss__dimension_weights": [1.0, 2.0]}, "2 weights for 1"),
        ({"loss__labels": ["a"]}, "labels are for classification"),
    ],
)
def test_what_would_have_no_effect_or_no_meaning_is_refused(recipe_for, tmp_path, values, why):
    with pytest.raises(ConfigError, match=why):
        train(placed(recipe_for("cosent", **values), tmp_path / "run"))


def test_a_text_and_itself_need_dropout(recipe_for):
    with pytest.raises(ConfigError, match=r"model\.dropout is 0, so the two passes"):
        recipe_for("contrastive", data__twice=True)


def test_distillation_needs_something_to_rank(recipe_for):
    with pytest.raises(ConfigError, match="the least that works is 1"):
        recipe_for("distillation", batches__hard_negatives=0)


def test_texts_alone_are_trained_on(recipe_for, tmp_path):
    source = written(tmp_path / "texts.jsonl", ({"text": row["document"]} for row in rows()))
    recipe = recipe_for("contrastive", data__sources=[source], data__twice=True, model__dropout=0.1)
    train(placed(recipe, tmp_path / "run"))
    assert all(row["loss"] > 0 for row in metrics_of(tmp_path / "run"))


def test_a_model_that_reads_context_learns_them_too(recipe_for, tmp_path):
    context = {"kind": "contextual", "context_documents": 4, "max_length": 16}
    start = recipe_for("cosent").model.backbone
    for objective in ("cosent", "classification"):
        recipe = recipe_for(objective, model={**context, "backbone": start}, steps=2)
        train(placed(recipe, tmp_path / objective))
        assert all(np.isfinite(row["loss"]) for row in metrics_of(tmp_path / objective))
        assert load(tmp_path / objective / "model", device="cpu").context_size == 4


def found_by_first(folder, kept):
    """Share of new queries whose nearest of 30 new documents is of their subject."""
    rng = np.random.default_rng(1)
    encoder = load(folder / "model", device="cpu")
    asked = [" ".join(rng.choice(SUBJECTS[i % 6], 3)) for i in range(120)]
    found = [" ".join(rng.choice(SUBJECTS[i % 6], 6)) for i in range(30)]
    queries, documents = (encoder.encode(texts)[:, :kept] for texts in (asked, found))
    documents = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    nearest = (queries @ documents.T).argmax(axis=1)
    return float(np.mean(nearest % 6 == np.arange(120) % 6))


def test_a_matryoshka_model_truncated_beats_a_plain_one_truncated(recipe_for, tmp_path):
    settings = {"steps": 60, "optimiser__learning_rate": 3e-3, "checkpoints__every": 0}
    plain = recipe_for("contrastive", **settings)
    nested = recipe_for("contrastive", loss__dimensions=[32, 8, 3], **settings)
    train(placed(plain, tmp_path / "plain"))
    train(placed(nested, tmp_path / "nested"))
    scores = {
        name: [found_by_first(tmp_path / name, kept) for kept in (32, 3)]
        for name in ("plain", "nested")
    }
    assert scores["nested"][0] > 0.9 and scores["plain"][0] > 0.9
    assert scores["nested"][1] > scores["plain"][1] + 0.1
