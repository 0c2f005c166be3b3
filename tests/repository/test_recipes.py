"""Every recipe and sweep in training/ can be used as it stands; no torch is needed to know."""

import subprocess
import sys
from pathlib import Path

import pytest

from cde_core.recipe import digest, read_mapping, read_recipe, to_yaml
from cde_core.train.sweep_file import read_sweep

TRAINING = Path(__file__).resolve().parents[2] / "training"
RECIPES = sorted(TRAINING.glob("*.yaml"))
SWEEPS = sorted(TRAINING.glob("sweeps/*.yaml"))


def named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", RECIPES, ids=named)
def test_a_recipe_validates_names_its_data_and_comes_back_from_what_is_saved(path, tmp_path):
    recipe = read_recipe(path)
    assert recipe.name == path.stem and recipe.data.sources
    saved = tmp_path / "recipe.yaml"
    saved.write_text(to_yaml(recipe), encoding="utf-8")
    assert read_recipe(saved) == recipe


@pytest.mark.parametrize("path", SWEEPS, ids=named)
def test_a_sweep_resolves_and_no_two_cells_train_the_same(path):
    cells = read_sweep(path).cells
    assert len({digest(cell.recipe) for cell in cells}) == len(cells) >= 2


@pytest.mark.parametrize("path", [*RECIPES, *SWEEPS], ids=named)
def test_a_recipe_says_what_it_is_about_in_its_own_words(path):
    own = read_mapping(path)
    assert len(str(own.get("about", "")).split()) >= 8
    if "extends" not in own and "recipe" not in own:
        assert "data" in own


@pytest.mark.parametrize("path", [*RECIPES, *SWEEPS], ids=named)
def test_every_recipe_runs_on_local_pairs_by_an_override(path):
    fields = ["--data.sources", "pairs.jsonl", "--steps", "2"]
    if path in SWEEPS:
        cells = read_sweep(path, fields=fields).cells
        recipes = [cell.recipe for cell in cells if "steps" not in cell.values]  # else its own
    else:
        from cde_core.recipe import with_overrides

        recipes = [with_overrides(read_recipe(path), fields, prog="cde-train")]
    assert all(r.data.sources == ("pairs.jsonl",) and r.steps == 2 for r in recipes)


def test_the_four_cells_of_table_1_differ_in_what_the_table_says():
    def cell(kind, batches):
        return read_recipe(TRAINING / f"paper-small-{kind}-{batches}.yaml")

    sizes = {"random": (16384, 0), "clustered": (512, 512)}  # batch, cluster
    for kind in ("biencoder", "contextual"):
        for batches, size in sizes.items():
            recipe = cell(kind, batches)
            assert recipe.model.kind == kind
            assert (recipe.batches.size, recipe.clusters.size) == size
            assert (recipe.model.layers, recipe.model.max_length) == (6, 64)
            assert recipe.model.context_documents == 64
            assert (recipe.loss.temperature, recipe.optimiser.learning_rate) == (0.02, 2e-5)


def test_the_supervised_recipe_is_that_of_cde_small_v1():
    recipe = read_recipe(TRAINING / "paper-large-supervised.yaml")
    assert (recipe.epochs, recipe.batches.size, recipe.clusters.size) == (4, 512, 512)
    assert (recipe.batches.hard_negatives, recipe.model.context_documents) == (1, 512)
    assert (recipe.optimiser.warmup, recipe.optimiser.schedule) == (200, "constant")
    assert (recipe.model.max_length, recipe.model.attention) == (512, "joint")


def test_reading_a_sweep_needs_no_torch():
    code = (
        "import sys; from pathlib import Path; from cde_core.train.sweep import read_sweep; "
        f"read_sweep(Path({str(SWEEPS[0])!r})); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TRAINING.parent, check=False)
    assert done.returncode == 0


def test_the_three_stages_of_2k_t5_have_the_hyper_parameters_of_its_appendix():
    spans, crops, tuned = (
        read_recipe(TRAINING / f"paper-2k-t5-{stage}.yaml")
        for stage in ("1-span-corruption", "2-cropping", "3-fine-tuning")
    )
    assert (spans.spans.share, spans.spans.mean_length, spans.steps) == (0.15, 3, 49152)
    assert round(spans.batches.size * spans.model.max_length * spans.steps, -9) == 8e9  # tokens
    rate = spans.optimiser
    assert (rate.learning_rate, rate.final_learning_rate, rate.schedule) == (2e-2, 1e-5, "cosine")
    assert rate.warmup == spans.steps // 10 and spans.model.positions == "rotary"
    for stage, before in ((crops, spans), (tuned, crops)):
        assert stage.model.backbone == f"runs/{before.name}/model"
        assert (stage.optimiser.learning_rate, stage.optimiser.schedule) == (5e-6, "linear")
        assert (stage.batches.size, stage.batches.tokens_at_once) == (128, 24 * 2048)
        assert (stage.model.pooling, stage.model.max_length) == ("decoder", 2048)
    for stage in (spans, crops, tuned):
        assert (stage.optimiser.weight_decay, stage.optimiser.clip) == (0, 1)
    assert (crops.epochs, tuned.epochs) == (1, 8)
    assert (crops.batches.hard_negatives, tuned.batches.hard_negatives) == (0, 9)
