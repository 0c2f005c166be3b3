"""Curves of score against the context, on records made by hand."""

import math
from pathlib import Path

import pytest

from cde_eval.report.context_curves import EXHIBITS, size_figure, token_figure
from cde_eval.report.context_points import (
    curve_table,
    gain_of_reading,
    size_curves,
    token_curves,
)
from cde_eval.report.evaluations import evaluations
from cde_eval.report.exhibits import Results
from cde_eval.results import query_scores_path, write_atomically
from tests.cde_eval.tiny_records import record

SIZES, TOKENS = EXHIBITS


def run(task, size, score, draw=0, *, tokens=0, **changes):
    """A record of a context of so many documents; 0 for none, None for all."""
    read = {"source": f"corpus:{task}/test", "documents": size, "seed": 42 + draw}
    fields = {
        "policy": "corpus" if size != 0 else "none",
        "context_size": size,
        "contexts": {"test/default": read} if size != 0 else {},
        "settings": {"tokens-per-document": str(tokens)} if tokens else {},
        "draw": draw,
    }
    return record(task, score, **{**fields, **changes})


RECORDS = [
    *(run("A", 0, 0.2), run("B", 0, 0.4)),
    *(run("A", 1, 0.3), run("B", 1, 0.5), run("A", 1, 0.5, 1), run("B", 1, 0.7, 1)),
    *(run("A", 4, 0.6), run("B", 4, 0.8), run("A", 4, 0.6, 1), run("B", 4, 0.8, 1)),
]


def by_path(records):
    return {Path(f"{number}.json"): one for number, one in enumerate(records)}


def curves(records):
    return size_curves(evaluations(by_path(records)))


def test_a_point_is_the_mean_over_draws_of_the_mean_over_tasks():
    points = curves(RECORDS)
    # J = 1: draw 0 (0.3 + 0.5) / 2 = 0.4, draw 1 (0.5 + 0.7) / 2 = 0.6
    assert points["x"].tolist() == [0, 1, 4]
    assert points["mean"].tolist() == pytest.approx([0.3, 0.5, 0.7])
    assert points["draws"].tolist() == [1, 2, 2] and set(points["tasks"]) == {2}


def test_the_interval_is_students_over_draws():
    # Two draws, 0.4 and 0.6: standard error 0.1, and t is 12.706 with one degree of freedom.
    none, one, four = curves(RECORDS).itertuples()
    assert (one.low, one.high) == pytest.approx((0.5 - 1.2706, 0.5 + 1.2706), abs=1e-4)
    assert (four.low, four.high) == pytest.approx((0.7, 0.7))
    assert math.isnan(none.low)


def test_the_same_sample_counts_once_whichever_draw_it_was_called():
    again = run("A", 1, 0.5, 1).model_copy(update={"draw": 0})
    points = curves([one for one in RECORDS if (one.task, one.draw) != ("A", 1)] + [again]
                    + [run("A", 4, 0.6, 1)])  # fmt: skip
    assert points["draws"].tolist() == [1, 2, 2]


def test_a_task_without_every_size_is_left_out_of_the_whole_line():
    points = curves([*RECORDS, run("C", 4, 0.9), run("C", 0, 0.9)])
    assert points["mean"].tolist() == pytest.approx([0.3, 0.5, 0.7])


def test_an_ordinary_run_is_no_curve():
    assert curves([run("A", 0, 0.2), run("A", 8, 0.3)]).empty
    assert curves([]).empty and token_curves(evaluations(by_path(RECORDS))).empty


def test_a_context_free_model_has_no_line():
    plain = [run(task, 0, 0.9, model="minilm", model_name="x/minilm") for task in "AB"]
    assert set(curves([*RECORDS, *plain])["line"]) == {"tiny"}


def test_other_documents_have_a_line_that_begins_at_the_same_point():
    random = [run(task, size, 0.35, policy="random") for task in "AB" for size in (1, 4)]
    points = curves([*RECORDS, *random]).set_index("policy")
    assert points.loc["random", "mean"].tolist() == pytest.approx([0.3, 0.35, 0.35])
    assert points.loc["corpus", "x"].tolist() == [0, 1, 4]


def test_the_table_shows_sizes_and_intervals():
    every = [*RECORDS, run("A", None, 0.9), run("B", None, 0.9)]
    table = curve_table(curves(every))
    assert table["documents"].tolist() == ["0", "1", "4", "all"]
    assert table["nDCG@10 × 100"].tolist() == ["30.00", "50.00", "70.00", "90.00"]
    assert table["95 % over draws"].tolist() == ["", "-77.06 to 177.06", "70.00 to 70.00", ""]


def test_none_and_all_stand_apart_in_the_figure():
    every = [*RECORDS, run("A", None, 0.9), run("B", None, 0.9)]
    (axes,) = size_figure(curves(every)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "4", "all"]
    places = axes.get_xticks()
    assert places[1] == 0 and places[2] == 2  # log2
    assert places[0] < -1 and places[3] > 3
    (joined, *_), (loose, *_) = (
        [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() == marker]
        for marker in ("None", "o")
    )
    assert list(joined.get_xdata()) == [0, 2] and list(loose.get_xdata()) == [places[0], places[3]]
    assert "tiny" in [text.get_text() for text in axes.texts]


def test_a_curve_without_none_begins_at_one():
    (axes,) = size_figure(curves([run("A", size, 0.5) for size in (1, 2, 4)])).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]


CUT = [
    run("A", 8 // tokens, score, draw, tokens=tokens)
    for tokens, score in ((1, 0.5), (2, 0.6), (4, 0.4))
    for draw in (0, 1)
]


def test_vectors_per_document_are_a_line_of_their_own():
    points = token_curves(evaluations(by_path([*CUT, *RECORDS])))
    assert points["x"].tolist() == [1, 2, 4] and points["documents"].tolist() == [8, 4, 2]
    assert points["mean"].tolist() == pytest.approx([0.5, 0.6, 0.4])
    assert curves([*CUT, *RECORDS])["x"].tolist() == [0, 1, 4]  # and none of the other's
    assert list(curve_table(points)["vectors per document"]) == ["1", "2", "4"]


def test_each_cut_names_the_documents_that_fill_the_context():
    (axes,) = token_figure(token_curves(evaluations(by_path(CUT)))).axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["1\n× 8", "2\n× 4", "4\n× 2"]


def written(folder, records, queries=None):
    for number, one in enumerate(records):
        path = folder / "records" / "tests__tiny" / str(number) / f"{one.task}.json"
        write_atomically(path, one.model_dump_json())
        score = one.scores[0].main
        rows = "".join(f"test,default,{n},{score + n / 10 - 0.1:.6f}\n" for n in range(3))
        write_atomically(query_scores_path(path), f"split,subset,query,ndcg_at_10\n{rows}")
    return Results(folder, folder / "published")


def test_what_reading_is_worth_has_an_interval_over_queries(tmp_path):
    # From none, 0.3, to four documents, 0.7; every query gains the same.
    results = written(tmp_path, RECORDS)
    assert SIZES.make(results) is not None
    note = SIZES.note(results)
    assert "tiny: +40.00 points from 0 to 4 documents (+40.00 to +40.00 over the queries)" in note
    assert note.endswith("Bars are over 2 draws.")


def test_results_that_cannot_be_compared_give_no_gain():
    moved = [*RECORDS[:-1], run("B", 4, 0.8, 1, task_revision="other")]
    records = by_path(moved)
    assert gain_of_reading(evaluations(records), records) == []


def test_the_exhibit_of_cuts_names_the_lowest_and_the_highest(tmp_path):
    results = written(tmp_path, CUT)
    assert TOKENS.make(results) is not None
    assert TOKENS.note(results) == "tiny: from 40.00 with 4 × 2 to 60.00 with 2 × 4."


def test_without_records_there_are_no_exhibits(tmp_path):
    results = Results(tmp_path, tmp_path)
    for exhibit in EXHIBITS:
        assert exhibit.make(results) is None and exhibit.note(results) == ""
