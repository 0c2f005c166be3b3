import pytest

from cde_eval.probes.table import ProbeTable
from cde_eval.report.exhibits import Results
from cde_eval.report.geometry import EXHIBITS
from cde_eval.report.geometry.objectives import by_objective

ALIGNMENT = next(one for one in EXHIBITS if one.name == "geometry-alignment")
OBJECTIVES = next(one for one in EXHIBITS if one.name == "geometry-objectives")


def measured(folder, model, score, task="DocsNetworkX"):
    """What the probe leaves of a model: its score in full and cut, and three measures."""
    about = {"model": model, "task": task, "revision": model, "settings": "{}",
             "task_revision": "1", "documents": 9, "texts": 9}  # fmt: skip
    table = ProbeTable(folder, "geometry", about, cell=("context", "draw", "pool", "part"))
    cell = {"context": "none", "draw": 0, "pool": ""}
    found = {"alignment": ("pairs", 1 - score), "uniformity": ("documents", -score),
             "anisotropy": ("documents", score / 2)}  # fmt: skip
    table.add(
        [row(name, value, side) for name, (side, value) in found.items()], **cell, part="vectors"
    )
    table.add([row("uniformity", -9, "queries")], **cell, part="spectrum")
    curve = [row("ndcg_at_10", score / 2, "pairs", 8), row("ndcg_at_10", score, "pairs", 384)]
    table.add(curve, **cell, part="truncation")


def row(measure, value, side, at=None):
    return {"measure": measure, "side": side, "at": at, "value": value, "low": value - 0.01,
            "high": value + 0.01}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    measured(tmp_path, "runs/objective-cosent/model", 0.2)
    measured(tmp_path, "minilm", 0.9)
    measured(tmp_path, "runs/objective-simcse/model", 0.6)
    measured(tmp_path, "objective-untrained", 0.4)
    measured(tmp_path, "runs/objective-cosent/model", 0.4, task="DocsSympy")
    return Results(tmp_path, tmp_path)


def test_a_row_is_the_mean_over_tasks_with_all_dimensions_and_the_best_is_first(results):
    from cde_eval.report.geometry.measured import compared

    table = by_objective(compared(results))
    assert list(table.index) == ["untrained", "simcse", "cosent"]
    means = table["value"].loc["cosent"].round(6).to_dict()
    assert means == {"alignment": 0.7, "anisotropy": 0.15, "ndcg_at_10": 0.3, "uniformity": -0.3}


def test_every_measure_has_a_panel_and_every_objective_a_line(results):
    figure = OBJECTIVES.make(results)
    assert len(figure.axes) == 4
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "untrained", "simcse", "cosent"]  # fmt: skip
    assert "DocsNetworkX, DocsSympy" in OBJECTIVES.note(results)


def test_models_that_are_compared_here_do_not_crowd_the_other_figures(results, tmp_path):
    labels = [text.get_text() for text in ALIGNMENT.make(results).legends[0].get_texts()]
    assert labels == ["minilm"]
    assert OBJECTIVES.make(Results(tmp_path / "none", tmp_path)) is None
