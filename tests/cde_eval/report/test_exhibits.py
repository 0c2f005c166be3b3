import json
from pathlib import Path

import pytest

from cde_core.errors import DataError
from cde_eval.report.contents import all_exhibits
from cde_eval.report.exhibits import Results
from cde_eval.report.page import PUBLISHED


def test_every_exhibit_has_a_name_of_its_own_and_says_how_to_make_it():
    exhibits = all_exhibits()
    names = [exhibit.name for exhibit in exhibits]
    assert len(set(names)) == len(names)
    for exhibit in exhibits:
        assert exhibit.title and exhibit.caption.endswith("."), exhibit.name
        assert exhibit.command.startswith(("cde-eval ", "cde-train ")), exhibit.name


def test_without_results_nothing_of_ours_is_made_and_nothing_fails(tmp_path: Path):
    results = Results(tmp_path, tmp_path)
    for exhibit in all_exhibits():
        assert exhibit.make(results) is None, exhibit.name
        assert exhibit.published(results) is None, exhibit.name


def test_every_file_of_published_numbers_says_where_they_are_from():
    files = sorted(PUBLISHED.glob("*.csv"))
    assert files
    for path in files:
        comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
        assert any("http" in line for line in comments), path.name
        assert not Results(PUBLISHED, PUBLISHED).published(path.stem).empty, path.name


def test_a_sweep_is_a_row_per_finished_cell(tmp_path: Path):
    for size in (0, 64):
        cell = tmp_path / "sweeps" / "mine" / f"clusters.size={size}"
        cell.mkdir(parents=True)
        result = {
            "cell": {"clusters.size": size}, "loss": 0.5, "accuracy": 0.9, "steps": 3,
            "scores": {"A/corpus": 0.25},
        }  # fmt: skip
        (cell / "result.json").write_text(json.dumps(result))
    sweeps = Results(tmp_path, tmp_path).sweeps
    assert sweeps["sweep"].tolist() == ["mine", "mine"]
    assert sweeps["clusters.size"].tolist() == [0, 64]
    assert sweeps["A/corpus"].tolist() == [0.25, 0.25]


def test_what_is_no_result_of_a_cell_is_named(tmp_path: Path):
    cell = tmp_path / "sweeps" / "mine" / "cell"
    cell.mkdir(parents=True)
    (cell / "result.json").write_text("{}")
    with pytest.raises(DataError, match=r"result\.json is not the result of a cell"):
        _ = Results(tmp_path, tmp_path).sweeps
