import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from cde_eval.compare import Comparison, Difference
from cde_eval.report.differences import (
    conclusion,
    difference_table,
    heading,
    number_table,
    write_differences,
)
from cde_eval.report.forest import difference_figure


def task(name: str, difference: float, p: float | None = 0.5, **changes: Any) -> Difference:
    tested: dict[str, Any] = {"measure": "ndcg_at_10", "a": 0.5, "b": 0.5 + difference}
    if p is not None:
        tested |= {"low": difference - 0.02, "high": difference + 0.02, "p": p / 2}
        tested |= {"p_corrected": p, "won": 3, "lost": 2, "tied": 1}
    return Difference(task=name, difference=difference, **{**tested, **changes})


def comparison(*tasks: Difference, notes: tuple[str, ...] = ()) -> Comparison:
    mean = sum(one.difference for one in tasks) / len(tasks)
    name = f"mean of {len(tasks)} tasks"
    last = Difference(
        task=name,
        measure="",
        a=0.5,
        b=0.5 + mean,
        difference=mean,
        low=mean - 0.01,
        high=mean + 0.01,
    )
    return Comparison(a="bm25 · none", b="bm25 · corpus", tasks=tasks, mean=last, notes=notes)


BETTER, WORSE, UNCLEAR = task("Gain", 0.06, 0.01), task("Loss", -0.04, 0.05), task("Maybe", 0.01)
UNTESTED = task("STS", 0.03, None, measure="cosine_spearman")


# Words and tables


def test_the_table_is_in_points_with_the_mean_last():
    table = difference_table(comparison(BETTER, WORSE)).set_index("task")
    assert list(table.index) == ["Gain", "Loss", "mean of 2 tasks"]
    assert list(table.loc["Gain"]) == [
        "0.5000", "0.5600", "+6.00", "[+4.00, +8.00]", "0.0050", "0.0100", "3/2/1",
    ]  # fmt: skip
    assert list(table.loc["mean of 2 tasks"])[2:] == ["+1.00", "[+0.00, +2.00]", "", "", ""]


def test_one_task_has_no_mean_and_several_measures_have_a_column():
    assert list(difference_table(comparison(BETTER))["task"]) == ["Gain"]
    table = difference_table(comparison(BETTER, UNTESTED))
    assert list(table["measure"]) == ["nDCG@10", "cosine spearman", ""]
    assert list(table.loc[1])[4:] == ["+3.00", "", "", "", ""]


def test_the_heading_says_which_way_the_difference_goes():
    said = heading(comparison(BETTER, WORSE, UNTESTED))
    assert "A is bm25 · none. B is bm25 · corpus." in said and "above zero, B is better" in said
    assert "for 2 tasks" in said and "\n" in said
    assert "Holm" not in heading(comparison(UNTESTED))  # there is nothing to correct


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ([BETTER], "B is better on Gain."),
        ([WORSE], "B is worse on Loss."),
        ([UNCLEAR], "B is neither better nor worse on Maybe; what differs may be chance."),
        ([BETTER, BETTER], "B is better on 2 of 2 tasks after correction."),
        (
            [BETTER, WORSE, UNCLEAR],
            "B is better on 1 and worse on 1 of 3 tasks after correction; on the other 1 the "
            "difference may be chance.",
        ),
        (
            [UNCLEAR, UNCLEAR],
            "B is neither better nor worse on any of 2 tasks after correction; what differs may "
            "be chance.",
        ),
        ([BETTER, UNTESTED], "B is better on Gain."),
        (
            [UNTESTED],
            "B scores higher on 1 of 1 task; without scores of queries nothing says whether that "
            "is chance.",
        ),
    ],
)
def test_the_conclusion_is_a_sentence(tasks, sentence):
    assert conclusion(comparison(*tasks)) == sentence


def test_numbers_for_programs_have_gaps_where_nothing_is_known():
    table = number_table(comparison(BETTER, UNTESTED)).set_index("task")
    assert table.loc["Gain", "points_b_minus_a"] == pytest.approx(6)
    assert table.loc["Gain", ["won", "lost", "tied"]].tolist() == [3, 2, 1]
    assert table.loc["STS", ["low", "high", "p", "p_corrected", "won"]].isna().all()
    assert set(table["run_a"]) == {"bm25 · none"} and set(table["run_b"]) == {"bm25 · corpus"}


# The picture


def axes_of(*tasks: Difference) -> Axes:
    (axes,) = difference_figure(comparison(*tasks)).axes
    return axes


def marks(axes: Axes) -> dict[str, Line2D]:
    """The mark of each row, by its label."""
    labels = {
        round(float(place), 6): label.get_text()
        for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    }
    drawn = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    return {labels[round(float(line.get_ydata()[0]), 6)]: line for line in drawn}


def test_tasks_fall_from_top_to_bottom_and_the_mean_is_at_the_foot():
    axes = axes_of(WORSE, BETTER, UNCLEAR)
    heights = {name: float(mark.get_ydata()[0]) for name, mark in marks(axes).items()}
    order = sorted(heights, key=lambda name: -heights[name])
    assert order == ["Gain", "Maybe", "Loss", "mean of 3 tasks"]


def test_marks_stand_at_the_differences_and_bars_span_the_intervals():
    axes = axes_of(BETTER, UNTESTED)
    assert marks(axes)["Gain"].get_xdata() == pytest.approx([6])
    ends = [tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "None"]
    assert pytest.approx((4, 8)) in ends
    assert not any(end == pytest.approx((1, 5)) for end in ends)  # that of STS, which has none


def test_what_stands_after_correction_is_filled_and_the_sides_differ_in_shape():
    found = marks(axes_of(BETTER, WORSE, UNCLEAR, UNTESTED))
    filled = {name for name, mark in found.items() if mark.get_markerfacecolor() != "white"}
    assert {"Gain", "Loss"} <= filled and "Maybe" not in filled
    assert (
        len({found[name].get_marker() for name in ("Gain", "Loss", "STS", "mean of 4 tasks")}) == 4
    )
    assert to_hex(found["Gain"].get_markerfacecolor()) != to_hex(
        found["Loss"].get_markerfacecolor()
    )


def test_zero_is_in_the_middle_and_the_sides_are_named():
    axes = axes_of(BETTER)
    low, high = axes.get_xlim()
    assert low == -high and high > 8
    assert [text.get_text() for text in axes.texts] == ["← A better", "B better →"]
    assert axes.get_xlabel() == "difference in points (nDCG@10 × 100)"


def test_a_figure_of_no_difference_at_all_has_an_axis():
    low, high = axes_of(task("Same", 0.0, 1.0, low=0.0, high=0.0)).get_xlim()
    assert (low, high) == (-1, 1)


def test_long_names_keep_their_ends():
    (label,) = axes_of(task("Amazing" * 5 + "HardNegatives.v2", 0.1)).get_yticklabels()
    assert len(label.get_text()) <= 36
    assert label.get_text().startswith("Amazing") and label.get_text().endswith("HardNegatives.v2")


def test_the_key_explains_what_is_drawn_and_no_more():
    figure = difference_figure(comparison(BETTER, UNCLEAR))
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["B better", "may be chance", "mean of tasks"]
    assert "95 % interval" in figure.legends[0].get_title().get_text()


@pytest.mark.parametrize("number", [1, 3, 15])
def test_nothing_is_cut_off_at_the_edge(number: int):
    names = [f"{'LongNameOfATask' * 3}{i}" for i in range(number - 1)]
    tasks = [UNTESTED, *(task(name, 0.1 * i - 0.3) for i, name in enumerate(names))]
    figure = difference_figure(comparison(*tasks))
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


# Files


def test_the_same_comparison_gives_the_same_bytes(tmp_path: Path):
    of = comparison(BETTER, WORSE, UNTESTED, notes=("Left out: X.",))
    first, second = (write_differences(of, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == [
        "differences.csv", "differences.md", "differences.png", "differences.svg",
    ]  # fmt: skip
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_the_text_says_all_that_the_terminal_says(tmp_path: Path):
    of = comparison(BETTER, WORSE, notes=("Left out, since only A has them: X.",))
    table, text, *_ = write_differences(of, tmp_path)
    for part in (heading(of), conclusion(of), *of.notes, "| Gain", "| mean of 2 tasks"):
        assert part in text.read_text()
    assert len(pd.read_csv(table)) == 3


def test_the_command_prints_the_table_and_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from cde_eval.cli import main
    from tests.cde_eval.test_compare import write

    write(tmp_path / "results", "T", "none", [0.5, 0.2, 0.0])
    write(tmp_path / "results", "T", "corpus", [0.6, 0.4, 0.3])

    def run(*arguments: str) -> int:
        places = ["--results", tmp_path / "results", "--out", tmp_path / "out"]
        monkeypatch.setattr(sys, "argv", ["cde-eval", "compare", *arguments, *map(str, places)])
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    assert run("none", "nothing") == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("cde-eval: B is 'nothing'")
    assert said.err.count("\n") == 1 and not (tmp_path / "out").exists()
    assert run("none", "corpus") == 0
    assert "+20.00" in capsys.readouterr().out
    assert len(list((tmp_path / "out").iterdir())) == 4
