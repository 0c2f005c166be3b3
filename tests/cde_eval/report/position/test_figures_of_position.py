import pandas as pd
import pytest

from cde_eval.report.exhibits import Results
from cde_eval.report.position import EXHIBITS
from cde_eval.report.position.moved import moved_figure
from cde_eval.report.position.spans import spans_figure
from cde_eval.report.position.starts import starts_figure
from cde_eval.report.position.tenths import tenths_figure
from tests.cde_eval.report.position.rows import moved_rows, span_rows, start_rows, tenth_rows


def test_there_is_a_panel_for_each_model_and_data_and_what_is_not_read_is_shaded():
    frame = pd.concat(
        [
            moved_rows(),
            moved_rows("n", read=0.2),
            moved_rows("n", "e"),
            moved_rows("n", "e", "corpus"),
        ]
    )
    figure = moved_figure(frame)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles == ["m\nd", "n\nd", "n\ne"]
    shaded = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert shaded == ["beyond what it reads"] * 3
    figure.draw_without_rendering()


def test_panels_of_one_corpus_have_one_scale_and_stand_together():
    low = moved_rows("n").assign(ndcg_at_10=0.1)
    figure = moved_figure(pd.concat([moved_rows(), moved_rows("m", "e"), low]))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["m\nd", "n\nd", "m\ne"]
    first, second, third = (axes.get_ylim() for axes in figure.axes)
    assert first == second and first[0] < 0.1 and third[0] > 0.1


def test_many_panels_go_on_below_and_no_place_is_left_empty_between_them():
    frame = pd.concat([moved_rows(data=name) for name in "abcd"])
    figure = moved_figure(frame)
    places = [axes.get_subplotspec().get_geometry() for axes in figure.axes]
    assert places == [(2, 2, number, number) for number in range(4)]


@pytest.mark.parametrize(
    ("draw", "frame"),
    [
        (tenths_figure, tenth_rows()),
        (spans_figure, span_rows()),
        (starts_figure, start_rows()),
        (moved_figure, moved_rows(read=float("nan")).assign(read=float("nan"))),
    ],
)
def test_each_figure_is_drawn_from_its_rows(draw, frame):
    draw(frame).draw_without_rendering()


def test_without_results_there_are_no_exhibits(tmp_path):
    results = Results(tmp_path, tmp_path)
    assert [exhibit.make(results) for exhibit in EXHIBITS] == [None] * len(EXHIBITS)
    assert [exhibit.note(results) for exhibit in EXHIBITS] == [""] * len(EXHIBITS)
