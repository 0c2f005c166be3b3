import errno
import functools
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import cde_core
from cde_core import cli
from cde_core.command_line import carry_out
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.recipe import Recipe, read_recipe, to_yaml
from cde_core.train import sweep as sweeps

from .conftest import BACKBONES, shaken

TEXTS = ["the cat and the dog", "tax law court judge", "bread flour oven mill river"]
DOCUMENTS = ["tax law court", "judge", "the king", "boat sail wind"]


@pytest.fixture
def backbone(tmp_path, tokenizer):
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(Biencoder(config)), reader_for(config, tokenizer))
    return save(encoder, tmp_path / "backbone")


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cde-train", *map(str, arguments)])
    cli.main()


def test_init_makes_a_model_that_loads_and_starts_near_its_backbone(
    backbone, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "model"
    run(monkeypatch, "init", backbone, "--out", out, "--context-documents", 4, "--no-prefixes")
    assert "parameters, untrained" in capsys.readouterr().out
    model = load(out)
    assert model.context_size == 4 and model.model.config.context_attention == "prefix"
    assert model.model.config.context_bias_init == -6
    found = model.encode(TEXTS, context=model.read_context(DOCUMENTS))
    assert (found * load(backbone).encode(TEXTS)).sum(axis=1).min() > 0.95


def test_init_makes_the_same_model_from_the_same_seed(backbone, tmp_path, monkeypatch):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(monkeypatch, "init", backbone, "--out", tmp_path / name, "--attention", "joint",
            "--no-residual-head", "--context-documents", 4, "--seed", seed)  # fmt: skip
    a, b, c = (load(tmp_path / name).encode(TEXTS) for name in "abc")
    assert np.array_equal(a, b) and not np.allclose(a, c)


def test_start_writes_the_model_that_a_run_begins_with(backbone, tmp_path, monkeypatch, capsys):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(
        f"model: {{kind: biencoder, backbone: {backbone}, layers: 1, prefixes: false}}\n"
        "data: {sources: [nothing-is-read.jsonl]}\n",
        encoding="utf-8",
    )
    run(monkeypatch, "start", recipe, "--out", tmp_path / "one")
    assert "small, untrained" in capsys.readouterr().out
    run(monkeypatch, "start", recipe, "--out", tmp_path / "two", "--model.layers", "2")
    one, two = (load(tmp_path / name) for name in ("one", "two"))
    assert (one.model.config.backbone.layers, two.model.config.backbone.layers) == (1, 2)
    whole = load(backbone).model.state_dict()
    assert all(torch.equal(whole[name], value) for name, value in one.model.state_dict().items())


def test_the_two_stages_share_no_weights(backbone, tmp_path, monkeypatch):
    run(monkeypatch, "init", backbone, "--out", tmp_path / "m", "--context-documents", 4)
    model = load(tmp_path / "m").model
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(set(pointers)) == len(pointers)


def test_a_mistake_is_one_line_and_status_2(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "init", tmp_path / "nowhere", "--out", tmp_path)
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("cde-train: There is no model folder") and message.count("\n") == 1


@pytest.fixture
def trained(monkeypatch):
    """Recipes that were given to the trainer, which does nothing else here."""
    given = []

    def train(recipe):
        given.append(recipe)
        return recipe.output / "model"

    module = types.ModuleType("cde_core.train.trainer")
    module.train = train
    monkeypatch.setitem(sys.modules, "cde_core.train.trainer", module)
    return given


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("about: Small.\nsteps: 10\ndata: {sources: [docs]}\n", encoding="utf-8")
    return path


def complaint(capsys):
    message = capsys.readouterr().err
    assert message.startswith("cde-train: ") and message.count("\n") == 1
    return message.removeprefix("cde-train: ").strip()


def test_a_recipe_in_the_place_of_a_command_is_trained(
    recipe, trained, tmp_path, monkeypatch, capsys
):
    run(monkeypatch, recipe, "--steps", 40, "--batches.size", 64, "--output", tmp_path / "out")
    run(monkeypatch, "run", recipe, "--output", tmp_path / "out")
    first, second = trained
    assert (first.steps, first.batches.size, first.output) == (40, 64, tmp_path / "out")
    assert (second.steps, second.batches.size, second.name) == (10, 256, "small")
    model = tmp_path / "out" / "model"
    assert f"cde-eval mteb --model {model}" in capsys.readouterr().out


def test_a_run_is_kept_in_runs_unless_told_otherwise(recipe, trained, monkeypatch):
    run(monkeypatch, recipe)
    assert trained[0].output == Path("runs", "small")


def test_the_folder_of_a_started_run_continues_it(recipe, trained, tmp_path, monkeypatch):
    (tmp_path / "moved").mkdir()
    started = Recipe(name="r", output=Path("elsewhere"), seed=7, data=read_recipe(recipe).data)
    (tmp_path / "moved" / "recipe.yaml").write_text(to_yaml(started), encoding="utf-8")
    run(monkeypatch, tmp_path / "moved", "--device", "cpu")
    (found,) = trained
    assert (found.seed, found.name, found.device) == (7, "r", "cpu")
    assert found.output == tmp_path / "moved"  # where it is, not where it was made


def test_only_the_first_of_several_processes_says_where_the_model_is(
    recipe, trained, monkeypatch, capsys
):
    monkeypatch.setenv("RANK", "1")
    run(monkeypatch, recipe)
    assert capsys.readouterr().out == "" and len(trained) == 1


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["clster"], "clster is neither a command nor a recipe. Did you mean 'cluster' or"),
        (["smal.yaml"], "There is no file smal.yaml. Did you mean 'small.yaml'?"),
        (["folder"], "folder is a folder without recipe.yaml, so no run started there"),
        (["empty.yaml"], "empty.yaml names no data; add --data.sources"),
        (["small.yaml", "--loss.temperature", "0"], "loss.temperature is 0.0; it must be"),
        (["data"], "Name what to read"),
        (["recipes", "folder"], "folder holds no recipes"),
        (
            ["small.yaml", "--stesp", "3"],
            "Unrecognized options: --stesp, 3. Perhaps you meant: --steps INT. For full helptext, "
            "run cde-train small.yaml --help.",
        ),
        (["small.yaml", "--steps", "x"], "Error parsing --steps: invalid literal"),
        (["init"], "Missing from cde-train init: "),
        (["cluster", "small.yaml", "--samples", "x"], "Error parsing --samples: invalid"),
        (
            ["cluster", "small.yaml", "--samples", "-1", "--data.sources", "missing.jsonl"],
            "--samples is -1; the least that works is 0.",
        ),
    ],
)
def test_what_cannot_be_run_is_answered_in_one_line(
    recipe, trained, tmp_path, monkeypatch, capsys, arguments, answer
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.yaml").write_text("steps: 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, *arguments)
    assert stop.value.code == 2 and not trained
    assert complaint(capsys).startswith(answer)


def test_data_says_what_pairs_there_are_and_counts_rows_it_skips(tmp_path, monkeypatch, capsys):
    path = tmp_path / "pairs.jsonl"
    row = '{"query": "sail", "document": "the boat", "domain": "%s"}\n'
    path.write_text(row % "sea" + row % "land" + "broken\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        run(monkeypatch, "data", path)
    assert f"{path}" in complaint(capsys)
    run(monkeypatch, "data", path, "--skip-bad-rows", "--only-domains", "sea")
    shown = capsys.readouterr()
    assert "sea" in shown.out and "land" not in shown.out and "1 bad rows" in shown.err


def test_data_of_a_recipe_needs_nothing_else_of_it(tmp_path, monkeypatch, capsys):
    # As training/objective-simcse.yaml: texts twice, which a model without dropout could not use.
    row = '{"query": "sail", "document": "the boat"}\n'
    (tmp_path / "pairs.jsonl").write_text(row, encoding="utf-8")
    recipe = tmp_path / "simcse.yaml"
    data = f"data: {{sources: [{tmp_path}/pairs.jsonl], twice: true}}\n"
    recipe.write_text(f"{data}model: {{dropout: 0.1}}\n", encoding="utf-8")
    run(monkeypatch, "data", recipe)
    assert "2 pairs" in capsys.readouterr().err  # each text with itself


def test_a_place_that_is_not_fit_for_use_is_one_line(backbone, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "init", backbone, "--out", tmp_path / "file")
    assert stop.value.code == 2
    assert complaint(capsys).startswith(f"A model cannot be written to {tmp_path / 'file'} (File")


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (OSError(errno.EROFS, "Read-only file system", "a/b"), "a/b cannot be read or written (Re"),
        (OSError(errno.ENOSPC, "No space left on device"), "A file cannot be read or written (No"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "a"), "a cannot be read or written"),
    ],
)
def test_what_the_system_says_of_a_place_is_one_line(capsys, error, answer):
    with pytest.raises(SystemExit) as stop:
        carry_out("cde-train", lambda: lambda: failing(error))
    assert stop.value.code == 2
    assert complaint(capsys).startswith(answer)


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(errno.ECONNREFUSED, "refused"), OSError("of a library"),
              FileNotFoundError(errno.ENOENT, "not there", "a"), ValueError()],
)  # fmt: skip
def test_what_nobody_foresaw_keeps_its_traceback(error):
    with pytest.raises(type(error)) as raised:
        carry_out("cde-train", lambda: lambda: failing(error))
    assert raised.value is error


def failing(error):
    raise error


def test_cluster_shows_clusters_of_the_recipe_as_overridden(tmp_path, monkeypatch, capsys):
    words = "boat sail wind rain sun moon star night day king queen town road stone".split()
    pairs = tmp_path / "pairs.jsonl"
    row = '{"query": "%s", "document": "the %s"}\n'
    pairs.write_text("".join(row % (word, word) for word in words), encoding="utf-8")
    path = tmp_path / "small.yaml"
    path.write_text("clusters: {surrogate: tfidf}\n", encoding="utf-8")
    run(monkeypatch, "cluster", path, "--data.sources", pairs, "--clusters.size", 7,
        "--samples", 1)  # fmt: skip
    shown = capsys.readouterr()
    assert "2 clusters" in shown.err and shown.out.count("│") >= 1


def test_recipes_are_listed_with_what_they_are_about(recipe, monkeypatch, capsys):
    run(monkeypatch, "recipes", recipe.parent)
    assert capsys.readouterr().out == f"{recipe}\n    Small.\n"
    broken = recipe.with_name("broken.yaml")
    broken.write_text("about: [\n", encoding="utf-8")
    run(monkeypatch, "recipes", recipe.parent)
    shown = capsys.readouterr().out
    assert "    Small.\n" in shown and f"{broken}\n    {broken} is not YAML: " in shown


def test_a_sweep_prints_its_cells_and_ends_with_2_where_one_failed(
    recipe, tmp_path, monkeypatch, capsys
):
    script = tmp_path / "fake.py"
    script.write_text(
        "import json, sys; from pathlib import Path; from cde_core.recipe import *\n"
        "recipe = read_recipe(Path(sys.argv[1]))\n"
        "if recipe.seed: sys.exit('cde-train: no luck')\n"
        "recipe.output.mkdir()\n"
        "record = {'recipe_digest': digest(recipe), 'steps': recipe.steps, 'loss': 0.25}\n"
        "(recipe.output / 'result.json').write_text(json.dumps(record))\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    fake = functools.partial(sweeps.run_sweep, command=(sys.executable, str(script)))
    monkeypatch.setattr(sweeps, "run_sweep", fake)
    file = tmp_path / "sweep.yaml"
    file.write_text("recipe: small.yaml\ngrid: {seed: [0, 1]}\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "sweep", file, "--steps", 7, "--output", tmp_path / "out")
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert "0.25" in shown.out and "cde-train: seed=1: no luck" in shown.err
    assert (tmp_path / "out" / "sweep.csv").read_text().splitlines() == [
        "seed,steps,loss,accuracy,seconds",
        "0,7,0.25,,",
    ]


def test_a_command_has_its_own_options_and_leaves_the_others_to_the_recipe():
    own, fields = cli._split(
        ["x.yaml", "--steps", "3", "--samples", "5", "--model.context-bias", "-6.0", "--samples=4"],
        {"--samples"},
    )
    assert own == ["x.yaml", "--samples", "5", "--samples=4"]
    assert fields == ["--steps", "3", "--model.context-bias", "-6.0"]


def test_export_writes_what_loads_as_a_published_model(backbone, tmp_path, monkeypatch):
    run(monkeypatch, "init", backbone, "--out", tmp_path / "m", "--attention", "joint",
        "--no-residual-head", "--no-residual-first-head", "--context-documents", 4)  # fmt: skip
    run(monkeypatch, "export", tmp_path / "m", "--out", tmp_path / "published")
    ours, theirs = (load(tmp_path / name) for name in ("m", "published"))
    context = [model.read_context(DOCUMENTS) for model in (ours, theirs)]
    vectors = [m.encode(TEXTS, context=c) for m, c in zip((ours, theirs), context, strict=True)]
    assert np.allclose(*vectors, atol=1e-5)


def test_the_help_of_a_recipe_does_not_wait_for_torch(recipe):
    code = (
        "import sys; from cde_core import cli\n"
        f"sys.argv = ['cde-train', {str(recipe)!r}, '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: sys.exit('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--optimiser.learning-rate" in done.stdout


def test_importing_the_package_and_its_command_does_not_import_torch():
    code = "import cde_core, cde_core.cli, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_are_there():
    assert all(getattr(cde_core, name) is not None for name in cde_core.__all__)
