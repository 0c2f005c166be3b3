import pandas as pd
import pytest

from cde_eval.probes.table import ProbeTable
from cde_eval.report.difficulty import EXHIBITS, correlations_in_words, difficulty_by_size
from cde_eval.report.exhibits import Results

FIGURE_2, FIGURE_6, FIGURE_10 = EXHIBITS
ABOUT = {"model": "tfidf", "model_name": "tfidf", "revision": "1", "pairs": 72,
         "sources": "docs", "most_batches": 9, "across_domains": "never"}  # fmt: skip


def grid():
    rows = [
        {"cluster_size": size, "batch_size": batch, "similarity": similarity, "batches": 4,
         "similarity_sd": 0.2, "hardest": 0.9, "false_negatives": similarity / 2}
        for size, batch, similarity in ((0, 8, 0.1), (0, 32, 0.1), (8, 8, 0.6), (8, 32, 0.4),
                                        (64, 8, 0.3), (64, 32, 0.25))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def run(name, loss, score, **changes):
    return {"digest": name, "run": name, "kind": "biencoder", "batch_size": 64, "cluster_size": 8,
            "filtered": "yes", "hard_negatives": 0, "similarity": loss / 10, "loss": loss,
            "score": score, "tasks": "A, B", **changes}  # fmt: skip


def results_of(folder, probe, rows, cell):
    table = ProbeTable(folder, probe, ABOUT, cell=cell)
    for row in rows:
        table.add([row], **{column: row[column] for column in cell})
    return Results(folder, folder)


def test_lines_stand_where_the_numbers_are_and_random_batches_at_the_right():
    figure = difficulty_by_size(grid())
    left, right = figure.axes
    lines = {tuple(line.get_ydata()) for line in left.lines}
    assert {(0.6, 0.3), (0.4, 0.25), (0.1,)} <= lines
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["8", "64", "random"]
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["8", "32"]
    assert max(max(line.get_ydata()) for line in right.lines) == 30  # percent


def test_figure_6_is_made_from_what_the_probe_left(tmp_path):
    assert FIGURE_6.make(Results(tmp_path, tmp_path)) is None
    rows = grid().to_dict("records")
    results = results_of(tmp_path, "difficulty", rows, ["cluster_size", "batch_size"])
    assert FIGURE_6.make(results) is not None
    assert "From 0.10 in random batches of 8 to 0.60 in batches of 8 from clusters of 8" in (
        FIGURE_6.note(results)
    )


def test_runs_are_compared_with_those_that_differ_in_difficulty_alone():
    rows = [run(f"a{i}", 1 + i, 0.5 + i / 10) for i in range(4)]
    rows += [run(f"b{i}", 1 + i, 0.5 - i / 10, filtered="no") for i in range(4)]
    said = correlations_in_words(pd.DataFrame(rows))
    assert "loss, biencoder, batches of 64, filtered: r = +1.00" in said
    assert "loss, biencoder, batches of 64, not filtered: r = −1.00" in said
    assert "loss, all 8 runs, whatever else differs: r = +0.00" in said.replace("−0.00", "+0.00")


def test_runs_with_hard_negatives_are_figure_10_and_others_figure_2(tmp_path):
    rows = [run("a", 1, 0.5), run("b", 2, 0.6), run("c", 3, 0.6, hard_negatives=2)]
    results = results_of(tmp_path, "difficulty-of-runs", rows, ["digest"])
    assert len(FIGURE_2.make(results).axes[0].collections[0].get_offsets()) == 2
    assert len(FIGURE_10.make(results).axes[0].collections[0].get_offsets()) == 1
    assert FIGURE_2.note(results) == "2 runs are too few for a correlation. Tasks: A, B."
    assert FIGURE_2.make(Results(tmp_path / "none", tmp_path)) is None


def test_a_run_whose_pairs_changed_has_no_similarity_and_the_others_have_a_line(tmp_path):
    rows = [run(f"a{i}", 1.0 + i, 0.5 + i / 10) for i in range(5)]
    rows[2]["similarity"] = float("nan")
    results = results_of(tmp_path, "difficulty-of-runs", rows, ["digest"])
    (line,) = FIGURE_2.make(results).axes[1].lines
    assert list(line.get_ydata()) == pytest.approx([50, 90])


def test_two_judges_are_never_in_one_figure(tmp_path):
    rows = [run(f"a{i}", 1.0 + i, 0.5) for i in range(3)]
    results_of(tmp_path, "difficulty-of-runs", rows, ["digest"])
    table = ProbeTable(
        tmp_path, "difficulty-of-runs", {**ABOUT, "model": "minilm"}, cell=["digest"]
    )
    for row in rows[:2]:
        table.add([{**row, "similarity": 0.9}], digest=row["digest"])
    figure = FIGURE_2.make(Results(tmp_path, tmp_path))
    assert figure.axes[1].collections[0].get_offsets()[:, 0].tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("known", [True, False])
def test_the_judges_panel_is_there_where_it_has_judged(tmp_path, known):
    rows = [run("a", 1.0, 0.5), run("b", 2.0, 0.6)]
    rows = rows if known else [{**row, "similarity": float("nan")} for row in rows]
    results = results_of(tmp_path, "difficulty-of-runs", rows, ["digest"])
    labels = [axes.get_xlabel() for axes in FIGURE_2.make(results).axes]
    judges = ["cosine of query and negative"] if known else []
    assert labels == ["loss at the end of training (nats)", *judges]
