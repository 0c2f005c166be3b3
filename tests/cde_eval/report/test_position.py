import pandas as pd
import pytest

from cde_eval.report.exhibits import Results
from cde_eval.report.position import (
    EXHIBITS,
    bias_table,
    moved_figure,
    spans_figure,
    starts_figure,
    tenths_figure,
)

NOTHING = pd.DataFrame()


def _moved(model="m", data="d", context="none", *, read=1.0):
    """Three queries; the score falls by 0.05 a place, and unmoved it is 0.5."""
    rows = [
        {"query": q, "place": place, "read": read if place < 5 else 0.0, "start": 10 * place}
        | dict.fromkeys(
            ("ndcg_at_10", "mrr_at_100", "recall_at_100"),
            0.5 if place == 0 else 1.0 - 0.05 * (place - 1) - 0.1 * q,
        )
        for q in range(3)
        for place in range(11)
    ]
    return pd.DataFrame(rows).assign(model=model, data=data, context=context, draw=0)


def _tenths():
    rows = [
        {"document": d, "tenth": t, "cosine": 0.9 - 0.05 * t + 0.01 * d}
        for d in range(3)
        for t in range(1, 11)
    ]
    return pd.DataFrame(rows).assign(model="m", data="d", context="none", draw=0, pooling="cls")


def _spans():
    right = [30 - zone for zone in range(10)]
    return pd.DataFrame(
        {"zone": range(1, 11), "tokens": 40, "right_tokens": right, "spans": 10, "right_spans": 1}
    ).assign(model="some/t5", data="d")


def _starts():
    return pd.DataFrame(
        {"start": range(101), "passage": 10, "document": 200, "data": "d", "model": "d"}
    )


def test_the_table_has_the_ends_and_their_difference():
    (row, *_) = bias_table(_moved(), NOTHING, NOTHING, NOTHING).to_dict("records")
    # 1.0, 0.9 and 0.8 at the first place; 0.45 less at the last, for every query.
    assert (row["unchanged"], row["first"], row["last"]) == ("0.5000", "0.9000", "0.4500")
    assert (row["last − first"], row["95 %"]) == ("-0.4500", "[-0.4500, -0.4500]")
    assert row["middle"] == "0.6750"  # places 5 and 6: 0.8 and 0.75, less 0.1 on average


def test_the_table_names_poolings_and_counts():
    table = bias_table(NOTHING, _tenths(), _spans(), _starts())
    tenths, spans, starts = table.to_dict("records")
    assert (tenths["model"], tenths["first"], tenths["last"]) == ("m, cls", "0.8600", "0.4100")
    # 30/40 and 21/40; its interval is 1.96·√(¾·¼/40 + 0.525·0.475/40) = 0.2048 wide to each side
    assert (spans["last − first"], spans["95 %"]) == ("-0.2250", "[-0.4298, -0.0202]")
    assert (starts["first"], starts["middle"], starts["last"]) == ("10", "50", "90")


def test_a_score_is_the_mean_over_draws():
    one, other = _moved(context="corpus"), _moved(context="corpus").assign(draw=1)
    other["ndcg_at_10"] += 0.02
    (row, *_) = bias_table(pd.concat([one, other]), NOTHING, NOTHING, NOTHING).to_dict("records")
    assert row["first"] == "0.9100"


def test_figures_have_a_panel_for_each_model_and_data_and_shade_what_is_not_read():
    frame = pd.concat(
        [_moved(), _moved("n", read=0.2), _moved("n", "e"), _moved("n", "e", "corpus")]
    )
    figure = moved_figure(frame)
    titles = {axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()}
    assert titles == {"m\nd", "n\nd", "n\ne"}
    shaded = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert shaded == ["beyond what it reads"] * 3
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("draw", "frame"),
    [
        (tenths_figure, _tenths()),
        (spans_figure, _spans()),
        (starts_figure, _starts()),
        (moved_figure, _moved(read=float("nan")).assign(read=float("nan"))),
    ],
)
def test_each_figure_is_drawn_from_its_rows(draw, frame):
    draw(frame).draw_without_rendering()


def test_without_results_there_are_no_exhibits(tmp_path):
    results = Results(tmp_path, tmp_path)
    assert [exhibit.make(results) for exhibit in EXHIBITS] == [None] * len(EXHIBITS)
    assert [exhibit.note(results) for exhibit in EXHIBITS] == [""] * len(EXHIBITS)
