import math
from pathlib import Path

import pytest

from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.data.summary import TOTAL, as_text, summarise


def test_every_number_agrees_with_one_counted_by_hand(tmp_path: Path):
    made = [
        Pair("a" * 2, "x" * 10, ("n", "n"), "small"),
        Pair("a" * 1, "x" * 10, (), "large"),
        Pair("a" * 3, "y" * 20, ("n",), "large"),
        Pair("a" * 5, "x" * 10, (), "large"),
    ]
    table = summarise(write_pairs(made, tmp_path / "pairs"))
    assert list(table.index) == ["large", "small", TOTAL]
    assert table.loc["large"].to_dict() == pytest.approx(
        {
            "pairs": 3,
            "share": 3 / 4,
            "with_negatives": 1,
            "mean_negatives": 1 / 3,
            "query_median": 3,
            "query_95": 3 + 0.9 * 2,  # 0.95 × 2 steps from the shortest: 1, 3, 5
            "document_median": 10,
            "document_95": 10 + 0.9 * 10,
            "duplicates": 1 / 3,  # the second of the two that are alike
            "scored": 0,
            "labelled": 0,
            "taught": 0,
        }
    )
    assert table.loc["small", "duplicates"] == 0 and table.loc["small", "mean_negatives"] == 2
    assert table.loc[TOTAL, "pairs"] == 4 and table.loc[TOTAL, "share"] == 1
    assert table.loc[TOTAL, "duplicates"] == 2 / 4 and table.loc[TOTAL, "mean_negatives"] == 3 / 4


def test_texts_are_read_of_a_sample_and_counts_are_of_all(tmp_path: Path):
    made = [Pair(f"{i}", "the same", (), "d") for i in range(100)]
    pairs = write_pairs(made, tmp_path / "pairs")
    table = summarise(pairs, sample=10)
    assert table.loc["d", "pairs"] == 100
    assert table.loc["d", "duplicates"] == pytest.approx(9 / 10)
    assert summarise(pairs, sample=10, seed=0).equals(table)


def test_people_read_per_cent_and_thousands(tmp_path: Path):
    made = [Pair("query", "d" * 1_234, (), f"domain {i % 2}") for i in range(4)]
    lines = as_text(summarise(write_pairs(made, tmp_path / "pairs"))).splitlines()
    assert lines[0].split() == ["negatives", "query", "length", "document", "length", "documents"]
    assert [line.split() for line in lines[2:]] == [
        ["domain", "0", "2", "50.0%", "0", "0.00", "5", "5", "1,234", "1,234", "50.0%"],
        ["domain", "1", "2", "50.0%", "0", "0.00", "5", "5", "1,234", "1,234", "50.0%"],
        ["all", "domains", "4", "100.0%", "0", "0.00", "5", "5", "1,234", "1,234", "75.0%"],
    ]


def test_scores_and_labels_are_counted_where_there_are_any(tmp_path: Path):
    made = [Pair("q", "d", score=float(i)) for i in range(3)] + [Pair("q", "d", label="1")]
    table = summarise(write_pairs(made, tmp_path / "pairs"))
    assert table.loc[TOTAL, ["scored", "labelled", "taught"]].tolist() == [3, 1, 0]
    lines = as_text(table).splitlines()
    assert lines[0].split()[-1] == "with" and lines[1].split()[-2:] == ["score", "label"]
    assert lines[-1].split()[-2:] == ["3", "1"]


def test_no_pairs_have_no_lengths(tmp_path: Path):
    table = summarise(write_pairs([], tmp_path / "pairs"))
    assert list(table.index) == [TOTAL] and table.loc[TOTAL, "pairs"] == 0
    assert math.isnan(table.loc[TOTAL, "query_median"])
    assert "nan" in as_text(table)
