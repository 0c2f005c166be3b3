"""Sweeps: cells out of a grid, each a process; finished ones are skipped, failures stay alone."""

import json
import os
import sys
from pathlib import Path

import pytest

from cde_core.errors import ConfigError
from cde_core.recipe import read_recipe
from cde_core.train.sweep import over_seeds, read_sweep, run_sweep, table, visible_gpus

FAKE = """
import json, os, sys
from pathlib import Path
from cde_core.recipe import digest, read_recipe

recipe = read_recipe(Path(sys.argv[1]))
with (recipe.output.parent / "started").open("a") as file:
    file.write(recipe.name + "\\n")
if recipe.batches.size == 13:
    print("loading\\ncde-train: thirteen pairs are unlucky", file=sys.stderr)
    sys.exit(2)
if recipe.batches.size == 14:
    raise RuntimeError("a bug")
if recipe.batches.size == 15:
    sys.exit(0)
recipe.output.mkdir(parents=True, exist_ok=True)
record = {
    "name": recipe.name,
    "recipe_digest": digest(recipe),
    "steps": recipe.steps,
    "loss": 1 / recipe.batches.size,
    "accuracy": 0.5,
    "scores": {"DocsNumpy": recipe.batches.size / 1000 + recipe.seed},
    "seconds": 2.0,
    "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
}
(recipe.output / "result.json").write_text(json.dumps(record))
"""
"""Stands for training: says what it was asked, and makes up what came out."""


@pytest.fixture
def command(tmp_path, monkeypatch):
    script = tmp_path / "fake.py"
    script.write_text(FAKE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    return (sys.executable, str(script))


@pytest.fixture
def sweep(tmp_path):
    """Write a sweep over a recipe of ten steps and read it."""
    (tmp_path / "small.yaml").write_text("steps: 10\ndata: {sources: [docs]}\n", encoding="utf-8")

    def reading(text: str, fields=()):
        path = tmp_path / "sweep.yaml"
        path.write_text(f"recipe: small.yaml\n{text}", encoding="utf-8")
        return read_sweep(path, output=tmp_path / "out", fields=fields)

    return reading


def started(tmp_path: Path) -> list[str]:
    return (tmp_path / "out" / "started").read_text(encoding="utf-8").split()


def test_a_grid_has_a_cell_for_every_combination_named_by_its_values(sweep):
    cells = sweep("grid: {batches.size: [64, 256], clusters.size: [8, 0]}").cells
    assert [cell.name for cell in cells] == [
        "batches.size=64,clusters.size=8",
        "batches.size=64,clusters.size=0",
        "batches.size=256,clusters.size=8",
        "batches.size=256,clusters.size=0",
    ]
    last = cells[-1].recipe
    assert (last.batches.size, last.clusters.size, last.steps) == (256, 0, 10)
    assert last.output is not None and last.output.name == last.name == cells[-1].name


def test_cells_may_be_listed_and_share_what_is_fixed(sweep):
    found = sweep(
        "fixed: {seed: 7}\n"
        "cells:\n  - {model.tokens_per_document: 2, model.context_documents: 32}\n"
        "  - {filter.surrogate: '', data.sources: [a/b, c]}"
    )
    first, second = found.cells
    assert (first.recipe.model.context_documents, first.recipe.seed) == (32, 7)
    assert second.name == "filter.surrogate=none,data.sources=a-b+c"
    assert second.recipe.data.sources == ("a/b", "c") and second.recipe.seed == 7


def test_seeds_repeat_all_cells_one_seed_after_the_other(sweep):
    cells = sweep("seeds: [3, 4]\ncells: [{batches.size: 64}, {batches.size: 32}]").cells
    assert [cell.recipe.seed for cell in cells] == [3, 3, 4, 4]
    assert [cell.recipe.batches.size for cell in cells] == [64, 32, 64, 32]
    assert cells[2].name == "batches.size=64,seed=4"


def test_scores_are_averaged_over_seeds_cell_by_cell(sweep, command):
    plan = sweep("seeds: [0, 1]\ncells: [{batches.size: 64}, {batches.size: 32}]")
    found = over_seeds(run_sweep(plan, command=command))
    assert found is not None
    assert list(found["batches.size"]) == [64, 32] and list(found["seeds"]) == [2, 2]
    assert list(found["DocsNumpy"]) == pytest.approx([0.564, 0.532])
    assert list(found["DocsNumpy ±"]) == pytest.approx([0.5**0.5] * 2)  # of 0 and 1, n - 1
    assert {"steps", "seconds"} < {*found} and not {"steps ±", "seconds ±"} & {*found}
    assert over_seeds(run_sweep(sweep("cells: [{batches.size: 8}]"), command=command)) is None
    alone = over_seeds(run_sweep(sweep("grid: {seed: [3, 5]}"), command=command))
    assert alone is not None and list(alone["seeds"]) == [2] and "index" not in alone


def test_nested_cells_are_those_of_dotted_names_in_tables_too(sweep, command):
    nested = "seeds: [3]\ncells: [{batches: {size: 64}}, {batches: {size: 32}}]"
    dotted = "seeds: [3]\ncells: [{batches.size: 64}, {batches.size: 32}]"
    assert sweep(nested) == sweep(dotted)
    found = over_seeds(run_sweep(sweep(nested), command=command))
    assert found is not None and list(found["batches.size"]) == [64, 32]
    (cell,) = sweep("cells: [{data: {prefixes: {a.b: [x, y]}}}]").cells
    assert cell.recipe.data.prefixes == {"a.b": ("x", "y")}  # a domain, whatever its dot


def test_the_command_line_overrides_all_cells_but_not_what_is_their_own(sweep):
    (cell,) = sweep("cells: [{batches.size: 64}]", ["--steps", "3", "--batches.size", "32"]).cells
    assert (cell.recipe.steps, cell.recipe.batches.size) == (3, 64)


def test_a_long_name_is_cut_and_stays_its_own(sweep):
    names = [cell.name for cell in sweep(f"grid: {{about: [{'a' * 300}, {'a' * 299}b]}}").cells]
    assert len(set(names)) == 2 and all(len(name) <= 120 for name in names)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("grids: {steps: [1]}", "a sweep has no grids. Did you mean 'grid'?"),
        ("about: nothing", "has neither a grid nor cells"),
        ("grid: {steps: 3}", "grid.steps is 3, but wants a list of values"),
        ("grid: [steps]", "grid is ['steps'], but wants a mapping"),
        ("cells: [3]", "cells wants a list of mappings"),
        ("cells: [{batches: {}}]", "has a cell that sets nothing"),
        ("cells: [{batches: {size: 4}}, {batches.size: 4}]", "has the cell batches.size=4 twice"),
        ("grid: {steps: [1, 1]}", "has the cell steps=1 twice"),
        ("grid: {step: [1]}", "cell step=1: there is no setting step. Did you mean 'steps'?"),
        ("grid: {steps: [-1]}", "cell steps=-1: steps is -1; the least that works is 0."),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_before_anything_runs(sweep, text, answer):
    with pytest.raises(ConfigError) as error:
        sweep(text)
    assert answer in str(error.value) and "sweep.yaml" in str(error.value)


def test_a_sweep_without_a_recipe_says_so(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text("grid: {steps: [1]}", encoding="utf-8")
    with pytest.raises(ConfigError, match="names no recipe"):
        read_sweep(path)


def test_every_cell_leaves_a_record_that_says_which_it_is(sweep, command, tmp_path):
    outcomes = run_sweep(sweep("grid: {batches.size: [64, 256]}"), command=command)
    record = json.loads((tmp_path / "out" / "batches.size=256" / "result.json").read_text())
    assert record["cell"] == {"batches.size": 256} and record == outcomes[1].record
    resolved = read_recipe(tmp_path / "out" / "batches.size=256.yaml")
    assert resolved == outcomes[1].cell.recipe
    rows = table(outcomes)
    assert rows["batches.size"].tolist() == [64, 256]
    assert rows["loss"].tolist() == [1 / 64, 1 / 256]
    assert rows["DocsNumpy"].tolist() == [0.064, 0.256]
    assert list(rows)[:4] == ["batches.size", "steps", "loss", "accuracy"]


def test_a_finished_cell_is_skipped_and_another_recipe_is_not_taken_for_it(
    sweep, command, tmp_path
):
    run_sweep(sweep("grid: {batches.size: [64]}"), command=command)
    again = run_sweep(sweep("grid: {batches.size: [64, 32]}"), command=command)
    assert [outcome.skipped for outcome in again] == [True, False]
    assert started(tmp_path) == ["batches.size=64", "batches.size=32"]
    longer = run_sweep(sweep("grid: {batches.size: [64]}", ["--steps", "11"]), command=command)
    assert not longer[0].skipped and len(started(tmp_path)) == 3


def test_a_record_cut_short_counts_for_nothing(sweep, command, tmp_path):
    plan = sweep("grid: {batches.size: [64]}")
    run_sweep(plan, command=command)
    result = tmp_path / "out" / "batches.size=64" / "result.json"
    result.write_text(result.read_text()[:40])
    assert not run_sweep(plan, command=command)[0].skipped


def test_a_cell_that_fails_is_told_in_a_line_and_stops_no_other(sweep, command, tmp_path):
    told = []
    outcomes = run_sweep(
        sweep("grid: {batches.size: [13, 14, 15, 64]}"), command=command, report=told.append
    )
    unlucky, bug, silent, fine = outcomes
    assert unlucky.error == "thirteen pairs are unlucky" and unlucky.record is None
    assert bug.error.startswith("RuntimeError: a bug (status 1; see ")
    assert silent.error.startswith("it ended without a result")
    assert fine.error == "" and fine.record is not None
    assert told == outcomes and len(table(outcomes)) == 1
    again = run_sweep(sweep("grid: {batches.size: [13, 64]}"), command=command)
    assert again[0].error and again[1].skipped


def test_cells_at_once_have_a_gpu_each(sweep, command):
    plan = sweep("grid: {batches.size: [8, 16, 32, 64]}")
    outcomes = run_sweep(plan, command=command, devices=["3", "5"])
    assert {outcome.record["gpu"] for outcome in outcomes if outcome.record} <= {"3", "5"}
    assert [o.cell.name for o in outcomes] == [cell.name for cell in plan.cells]


def test_without_gpus_a_cell_sees_what_the_sweep_sees(sweep, command):
    (outcome,) = run_sweep(sweep("grid: {batches.size: [8]}"), command=command, parallel=2)
    assert outcome.record is not None
    assert outcome.record["gpu"] == os.environ.get("CUDA_VISIBLE_DEVICES")


def test_no_cells_at_once_are_refused(sweep, command):
    with pytest.raises(ConfigError, match="--parallel is 0; the least that works is 1"):
        run_sweep(sweep("grid: {batches.size: [8]}"), command=command, parallel=0)


def test_an_interrupted_sweep_ends_its_cells_and_starts_no_more(sweep, command, tmp_path):
    def interrupt(outcome):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep("grid: {batches.size: [8, 16, 32, 64, 128]}"), command=command,
                  report=interrupt)  # fmt: skip
    assert len(started(tmp_path)) < 5


def test_gpus_are_those_that_the_environment_leaves(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-7")
    assert visible_gpus() == ["2", "GPU-7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []
