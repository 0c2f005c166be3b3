"""The matrix of tasks and domains, on records made by hand."""

import math
from pathlib import Path

import pytest

from cde_eval.report.domains import EXHIBITS
from cde_eval.report.domains.advantage import advantage_in_words, over_queries, over_tasks
from cde_eval.report.domains.heat_map import domain_figure
from cde_eval.report.domains.matrix import marked_table, matrices
from cde_eval.report.evaluations import evaluations
from cde_eval.report.exhibits import Results
from cde_eval.results import query_scores_path, write_atomically
from tests.cde_eval.tiny_records import record

SCORES = {  # rows: Ale, Bus, Cat; columns: documents of the same
    "Ale": (0.50, 0.495, 0.40),
    "Bus": (0.30, 0.36, 0.33),
    "Cat": (0.70, 0.72, 0.69),
}
NAMES = tuple(SCORES)


def cell(task, domain, score, *, revision="r1", of_domain="r1", **changes):
    return record(
        task,
        score,
        policy=f"task:{domain}",
        task_revision=f"{task}-{revision}",
        contexts={
            "test/default": {
                "source": f"task:{domain}/test {domain}-{of_domain}",
                "documents": 8,
                "seed": 42 + changes.get("draw", 0),
                "with_replacement": changes.pop("repeats", False),
            }
        },
        **changes,
    )


RECORDS = [
    cell(task, domain, score)
    for task, row in SCORES.items()
    for domain, score in zip(NAMES, row, strict=True)
]


def frame_of(records):
    return evaluations({Path(f"{number}.json"): one for number, one in enumerate(records)})


def matrix_of(records):
    (matrix,) = matrices(frame_of(records)).values()
    return matrix


def written(folder, records, queries=None):
    """Write records, and scores of queries by (task, domain) where there are."""
    for number, one in enumerate(records):
        path = folder / "records" / "tests__tiny" / str(number) / f"{one.task}.json"
        write_atomically(path, one.model_dump_json())
        if queries is not None:
            scores = queries[one.task, one.policy.removeprefix("task:")]
            rows = "".join(f"test,default,{n},{score}\n" for n, score in enumerate(scores))
            write_atomically(query_scores_path(path), f"split,subset,query,ndcg_at_10\n{rows}")
    return Results(folder, folder / "published")


def test_rows_are_tasks_and_columns_whose_documents_were_read():
    scores = matrix_of(RECORDS).scores
    assert list(scores.index) == list(scores.columns) == list(NAMES)
    assert scores.loc["Ale", "Cat"] == 0.40 and scores.loc["Cat", "Ale"] == 0.70


def test_a_cell_is_the_mean_of_its_draws():
    more = cell("Ale", "Bus", 0.455, draw=1, draws=2)
    assert matrix_of([*RECORDS, more]).scores.loc["Ale", "Bus"] == pytest.approx(0.475)


def test_the_advantage_of_own_documents_agrees_with_a_sum_done_by_hand():
    # Ale 0.50 − (0.495 + 0.40) / 2 = 0.0525
    # Bus 0.36 − (0.30 + 0.33) / 2  = 0.045
    # Cat 0.69 − (0.70 + 0.72) / 2  = −0.02          mean 0.0775 / 3
    matrix = matrix_of(RECORDS)
    assert list(matrix.advantages) == pytest.approx([0.0525, 0.045, -0.02])
    low, high = over_tasks(matrix)
    # Means of three drawn with replacement from three: the extremes are all of one kind.
    assert low == pytest.approx(-0.02) and high == pytest.approx(0.0525)
    assert advantage_in_words(matrix).startswith(
        "+2.58 points (−2.00 to +5.25 over the 3 tasks, which are few);"
    )


def test_cells_within_one_point_of_their_rows_best_are_marked():
    matrix = matrix_of(RECORDS)
    assert matrix.marked.to_numpy().tolist() == [
        [True, True, False],  # 0.50, 0.495 | 0.40
        [False, True, False],  # 0.36 | 0.33
        [False, True, False],  # 0.72 | 0.70, two points away
    ]
    assert marked_table(matrix.scores).loc["Ale"].tolist() == ["● 50.0", "● 49.5", "40.0"]
    assert "best: 2 of 3 with their own documents, 2 of 6 with those" in advantage_in_words(matrix)


def test_exactly_one_point_is_within_one_point():
    records = [cell("Ale", "Ale", 0.7), cell("Ale", "Bus", 0.69), cell("Bus", "Bus", 0.1)]
    assert matrix_of(records).marked.loc["Ale"].tolist() == [True, True]


def test_a_row_that_is_not_full_does_not_count_in_the_advantage():
    matrix = matrix_of(RECORDS[:-1])  # Cat with its own documents is missing, and so is its row
    assert list(matrix.scores.index) == ["Ale", "Bus"]
    matrix = matrix_of([one for one in RECORDS if (one.task, one.policy) != ("Ale", "task:Cat")])
    assert math.isnan(matrix.scores.loc["Ale", "Cat"])
    assert list(matrix.advantages.index) == ["Bus", "Cat"]


def test_documents_that_a_domain_no_longer_has_do_not_count():
    old = [cell("Ale", "Bus", 0.9, of_domain="r0"), cell("Cat", "Bus", 0.9, of_domain="r0")]
    stale = cell("Bus", "Bus", 0.9, revision="r0", of_domain="r0")
    assert matrix_of([*old, stale, *RECORDS]).scores.equals(matrix_of(RECORDS).scores)


def test_models_and_sizes_have_panels_of_their_own():
    other = [one.model_copy(update={"model": "bm25", "model_name": "x/bm25"}) for one in RECORDS]
    fewer = [one.model_copy(update={"context_size": 2}) for one in RECORDS]
    assert list(matrices(frame_of([*RECORDS, *other]))) == ["tiny", "bm25"]
    assert list(matrices(frame_of([*RECORDS, *fewer]))) == ["tiny J=8", "tiny J=2"]


def test_other_contexts_make_no_matrix():
    assert matrices(frame_of([record("Ale"), record("Ale", policy="none")])) == {}


QUERIES = {
    (task, domain): [score - 0.1, score, score + 0.1]
    for task, row in SCORES.items()
    for domain, score in zip(NAMES, row, strict=True)
}


def test_where_every_query_gains_the_same_the_interval_over_queries_is_a_point(tmp_path):
    results = written(tmp_path, RECORDS, QUERIES)
    (matrix,) = matrices(evaluations(results.records_by_path)).values()
    assert over_queries(matrix) == pytest.approx((0.0775 / 3, 0.0775 / 3))


def test_without_scores_of_queries_there_is_no_interval_over_them(tmp_path):
    results = written(tmp_path, RECORDS)
    (matrix,) = matrices(evaluations(results.records_by_path)).values()
    assert over_queries(matrix) is None


def test_marked_cells_have_a_frame_in_the_figure():
    (axes,) = domain_figure(matrices(frame_of(RECORDS))).axes
    framed = {(round(box.get_y() + 0.43), round(box.get_x() + 0.45)) for box in axes.patches}
    assert framed == {(0, 0), (0, 1), (1, 1), (2, 1)}  # row, column
    assert {text.get_text() for text in axes.texts} >= {"50.0", "49.5", "40.0", "72.0"}
    assert [label.get_text() for label in axes.get_yticklabels()] == list(NAMES)


def test_the_exhibit_says_what_was_found(tmp_path):
    (exhibit,) = EXHIBITS
    results = written(tmp_path, [*RECORDS[1:], cell("Ale", "Ale", 0.5, repeats=True)], QUERIES)
    assert exhibit.make(results) is not None
    note = exhibit.note(results)
    assert "tiny: +2.58 points (−2.00 to +5.25 over the 3 tasks, which are few; +2.58 to" in note
    assert note.endswith("Ale has fewer documents than are read, so some were read twice.")


def test_without_records_there_is_no_exhibit(tmp_path):
    (exhibit,) = EXHIBITS
    results = Results(tmp_path, tmp_path)
    assert exhibit.make(results) is None and exhibit.note(results) == ""


def test_scores_of_models_in_folders_have_no_paths_in_their_names():
    local = [
        one.model_copy(update={"model": "/somewhere/mine", "model_name": "local/mine"})
        for one in RECORDS
    ]
    assert list(matrices(frame_of(local))) == ["mine"]


def test_a_panel_of_other_tasks_than_its_neighbours_names_its_own():
    other = [one.model_copy(update={"model": "bm25", "model_name": "x/bm25"}) for one in RECORDS]
    fewer = [one for one in other if "Cat" not in (one.task, one.policy.removeprefix("task:"))]
    for records, shown in ((other, ["", "", ""]), (fewer, ["Ale", "Bus"])):
        _, right = domain_figure(matrices(frame_of([*RECORDS, *records]))).axes
        assert [label.get_text() for label in right.get_yticklabels()] == shown
