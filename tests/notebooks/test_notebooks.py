"""The notebooks run from their first cell to their last, and end with what they say."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cde_eval.compare import compare
from cde_eval.results import read_query_scores, records_by_path
from cde_eval.sides import find_side
from cde_eval.tasks.documentation import Documentation, load_documentation

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
DOCUMENTS = 24  # in the small corpus of a test


JUPYTER = """
import ast, json, sys
space = {"__name__": "__main__"}
for number, text in enumerate(json.load(sys.stdin), 1):
    body = ast.parse(text).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), f"cell {number}", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)
        if value is not None:
            print(value)
"""
"""Runs cells as Jupyter does, as far as notebooks of plain Python go."""


def named(name: str) -> Path:
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(name))
    return path


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def source(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"])


def execute(path: Path, folder: Path, **settings: str) -> str:
    """What a notebook prints when its cells are run in order, in a process of their own.

    As in Jupyter, what the last line of a cell comes to is shown.
    """
    script = folder / "cells.py"
    script.write_text(JUPYTER)
    variables = {f"CDE_NOTEBOOK_{name}": value for name, value in settings.items()}
    found = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps([source(cell) for cell in cells(path, "code")]),
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "CDE_NOTEBOOK_OUTPUT": str(folder / "out"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


@pytest.fixture(scope="module")
def documentation() -> Documentation:
    """Read before any notebook is, and once for all of them: it stays in the tests' cache."""
    return load_documentation()


@pytest.fixture(scope="module")
def corpus(documentation: Documentation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder of a few built-in documents, under the name of their own domain's task."""
    folder = tmp_path_factory.mktemp("data") / "DocsNetworkX"
    pairs = documentation.in_domain("networkx")[:DOCUMENTS]
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (
        ("corpus", [{"_id": pair.id, "title": "", "text": pair.document} for pair in pairs]),
        ("queries", [{"_id": f"q:{pair.id}", "text": pair.query} for pair in pairs]),
    ):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = "".join(f"q:{pair.id}\t{pair.id}\t1\n" for pair in pairs)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def test_there_are_three_notebooks():
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_for_jupyter_and_begins_with_a_title(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert source(cells(path, "markdown")[0]).startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_logic_of_its_own(path):
    """It calls the packages: what would be worth a function belongs there."""
    for cell in cells(path, "code"):
        assert not re.search(r"^\s*(def|class|while) ", source(cell), re.MULTILINE)
        assert len(cell["source"]) <= 25


def ends_with_a_record(folder: Path, printed: str, models: list[str]) -> None:
    """Two records or more, the shown one among them, and its score the mean over its queries."""
    found = records_by_path(folder / "out" / "score-a-model")
    assert {record.model for record in found.values()} == set(models)
    assert {record.policy for record in found.values()} == {"corpus", "none"}
    shown = json.loads(re.search(r"^\{\n.*?^\}", printed, re.MULTILINE | re.DOTALL).group())
    assert shown["model"] == models[0] and shown["task"] == "DocsNetworkX"
    path = next(
        path
        for path, record in found.items()
        if (record.model, record.policy) == (models[0], "corpus")
    )
    scores = read_query_scores(path)["ndcg_at_10"]
    assert scores.mean() == pytest.approx(found[path].scores[0].main, abs=1e-5)
    assert f"mean of {len(scores)} queries: {scores.mean():.4f}" in printed


@pytest.mark.usefixtures("documentation")
def test_the_first_scores_bm25_and_shows_its_record(tmp_path):
    printed = execute(named("01"), tmp_path, MODELS="bm25")
    ends_with_a_record(tmp_path, printed, ["bm25"])


@pytest.mark.usefixtures("documentation")
@pytest.mark.slow
def test_the_first_scores_a_centred_model_beside_it(tmp_path, minilm_folder):
    printed = execute(named("01"), tmp_path)
    ends_with_a_record(tmp_path, printed, ["bm25", "centred:minilm"])


def ends_with_a_decision(printed: str, model: str) -> str:
    lines = printed.strip().splitlines()
    assert lines[-1].startswith(f"Decision for {model} on DocsNetworkX: ")
    return lines[-1]


@pytest.mark.usefixtures("documentation")
def test_the_second_goes_from_no_folder_at_all_to_a_decision(tmp_path):
    said = ends_with_a_decision(execute(named("02"), tmp_path, MODEL="bm25"), "bm25")
    results = tmp_path / "out" / "does-context-help-200"
    for other in ("none", "random"):
        assert (results / f"corpus-against-{other}" / "differences.png").stat().st_size > 0
    gain = compare(find_side("A", "none", results), find_side("B", "corpus", results)).mean
    assert f"{100 * gain.difference:+.1f} points" in said


def test_the_second_decides_about_a_folder_of_the_readers(tmp_path, corpus, minilm_folder):
    settings = {"MODEL": "centred:minilm", "DATA": str(corpus), "SIZE": "12", "DRAWS": "2"}
    printed = execute(named("02"), tmp_path, **settings)
    ends_with_a_decision(printed, "centred:minilm")
    records = records_by_path(tmp_path / "out" / "does-context-help-12").values()
    assert {record.data_origin for record in records} == {str(corpus)}
    assert sorted(record.policy for record in records) == ["corpus"] * 2 + ["none"] + ["random"] * 2


@pytest.mark.slow
def test_the_third_trains_a_model_that_loads_and_looks_at_it(tmp_path, corpus, minilm_folder):
    import cde_core

    printed = execute(
        named("03"),
        tmp_path,
        RECIPE=str(REPOSITORY / "training" / "docs-tiny.yaml"),
        STEPS="2",
        PAIRS="32",
        BATCH="16",
        SIZE="8",
        DRAWS="1",
        DATA=str(corpus),
    )
    model = Path(printed.strip().splitlines()[-1].removeprefix("Model: "))
    assert model == tmp_path / "out" / "train-and-look" / "run-2-steps" / "model"
    vectors = cde_core.load(str(model)).encode_documents(["Trains run on rails."], None)
    assert vectors.shape == (1, 384)
    assert "nearest to itself" in printed  # the probe's table
    records = records_by_path(tmp_path / "out" / "train-and-look").values()
    assert {record.policy for record in records} == {"corpus", "random", "none"}
