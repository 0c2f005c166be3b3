import pandas as pd

from cde_eval.report.position.ends import bias_table
from tests.cde_eval.report.position.rows import (
    NOTHING,
    moved_rows,
    span_rows,
    start_rows,
    tenth_rows,
)


def test_the_table_has_the_ends_and_their_difference():
    (row, *_) = bias_table(moved_rows(), NOTHING, NOTHING, NOTHING).to_dict("records")
    # 1.0, 0.9 and 0.8 at the first place; 0.45 less at the last, for every query.
    assert (row["unchanged"], row["first"], row["last"]) == ("0.5000", "0.9000", "0.4500")
    assert (row["last − first"], row["95 %"]) == ("-0.4500", "[-0.4500, -0.4500]")
    assert row["middle"] == "0.6750"  # places 5 and 6: 0.8 and 0.75, less 0.1 on average


def test_the_table_names_poolings_and_counts():
    table = bias_table(NOTHING, tenth_rows(), span_rows(), start_rows())
    tenths, spans, starts = table.to_dict("records")
    assert (tenths["model"], tenths["first"], tenths["last"]) == ("m, cls", "0.8600", "0.4100")
    # 30/40 and 21/40; its interval is 1.96·√(¾·¼/40 + 0.525·0.475/40) = 0.2048 wide to each side
    assert (spans["last − first"], spans["95 %"]) == ("-0.2250", "[-0.4298, -0.0202]")
    assert (starts["first"], starts["middle"], starts["last"]) == ("10", "50", "90")


def test_a_score_is_the_mean_over_draws():
    one, other = moved_rows(context="corpus"), moved_rows(context="corpus").assign(draw=1)
    other["ndcg_at_10"] += 0.02
    (row, *_) = bias_table(pd.concat([one, other]), NOTHING, NOTHING, NOTHING).to_dict("records")
    assert row["first"] == "0.9100"
