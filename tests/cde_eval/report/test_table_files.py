import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cde_eval.report.table_files import as_text, cell_text, save_table, to_markdown, word_columns


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.50", "0.50"),
        (None, ""),
        (math.nan, ""),
        (0.123456, "0.1235"),
        (1234567, "1,234,567"),
        (123456.7, "123,457"),
        (True, "yes"),
    ],
)
def test_a_cell_shows_what_a_reader_wants(value: Any, text: str):
    assert cell_text(value) == text


def test_whole_numbers_beside_fractions_stay_whole():
    assert as_text(pd.DataFrame({"n": [1000], "x": [0.5]})).iloc[0].tolist() == ["1,000", "0.5"]


def test_words_are_told_from_numbers_whatever_is_missing():
    table = as_text(
        pd.DataFrame(
            {
                "a": ["x", ""],
                "b": ["", "0.5 ± 0.1"],
                "c": ["+1.25", "−3"],
                "d": ["", ""],
                "e": ["<.01", "–"],
                "f": ["1 of 2", ""],
            }
        )
    )
    assert word_columns(table) == [True, False, False, False, False, True]


def test_markdown_has_words_left_and_numbers_right():
    lines = to_markdown(pd.DataFrame({"task": ["A"], "score": ["0.5"]})).splitlines()
    rule = lines[1].strip("|").split("|")
    assert rule[0].startswith(":") and rule[1].endswith(":") and not rule[1].startswith(":")
    assert "0.5" in lines[2]


def test_a_table_is_two_files_of_the_same_bytes_each_time(tmp_path: Path):
    table = pd.DataFrame({"task": ["A"], "score": [1 / 3]})
    first, second = (save_table(table, "t", tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["t.md", "t.csv"]
    assert first[1].read_bytes() == second[1].read_bytes() == b"task,score\nA,0.333333\n"
    assert first[0].read_bytes() == second[0].read_bytes()


def test_a_table_without_rows_is_written_too(tmp_path: Path):
    _, plain = save_table(pd.DataFrame({"a": []}), "t", tmp_path)
    assert plain.read_text() == "a\n"
