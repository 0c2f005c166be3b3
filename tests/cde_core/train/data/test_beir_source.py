import json
from pathlib import Path

import pytest

from cde_core.errors import DataError
from cde_core.train.data.pairs import Pair
from cde_core.train.data.sources import prepare_pairs


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A data set with a title, a query with two grades, one without an answer, one not judged."""
    folder = tmp_path / "tax"
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": "d1", "title": "Income", "text": "Income tax is paid in May."},
        {"_id": "d2", "text": "Land tax is paid in June."},
        {"_id": "d3", "title": "", "text": "Nobody asks for this."},
    ]
    queries = [{"_id": f"q{n}", "text": f"question {n}"} for n in range(4)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = [json.dumps(row) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    judge(folder, "q1\td1\t1", "q1\td2\t2", "q0\td1\t1", "q3\td3\t0")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td3\t1\n")
    return folder


def judge(folder: Path, *lines: str) -> None:
    header = "query-id\tcorpus-id\tscore"
    (folder / "qrels" / "train.tsv").write_text("\n".join([header, *lines]) + "\n")


def pairs_of(folder: Path, **options: bool) -> list[Pair]:
    return list(prepare_pairs([str(folder)], cache=folder.parent / "cache", **options).pairs)


def test_a_query_comes_once_with_its_best_document_and_the_test_split_stays_out(beir: Path):
    assert pairs_of(beir) == [
        Pair("question 1", "Land tax is paid in June.", (), "tax"),
        Pair("question 0", "Income Income tax is paid in May.", (), "tax"),
    ]


def test_other_judgements_are_other_pairs(beir: Path):
    first = pairs_of(beir)
    judge(beir, "q2\td3\t1")
    assert pairs_of(beir) == [Pair("question 2", "Nobody asks for this.", (), "tax")] != first


def test_a_folder_without_a_train_split_says_which_it_has(beir: Path):
    (beir / "qrels" / "train.tsv").unlink()
    with pytest.raises(DataError, match=r"tax has no qrels/train\.tsv \(qrels found: test\.tsv\)"):
        pairs_of(beir)


@pytest.mark.parametrize(
    ("line", "why"), [("q9\td1\t1", "no query 'q9'"), ("q1\td9\t1", "no document 'd9'")]
)
def test_what_is_judged_must_be_there(beir: Path, line: str, why: str):
    judge(beir, "q0\td1\t1", line)
    with pytest.raises(DataError, match=f"line 3.*{why}"):
        pairs_of(beir)
    assert len(pairs_of(beir, skip_bad_rows=True)) == 1


@pytest.mark.parametrize("name", ["corpus", "queries"])
def test_a_text_that_is_none_is_a_bad_row_of_its_line(beir: Path, name: str):
    file = beir / f"{name}.jsonl"
    lines = file.read_text().splitlines()
    number = 0 if name == "corpus" else 1
    row = {**json.loads(lines[number]), "text": None}  # of d1, which answers q0; of q1
    file.write_text("\n".join([*lines[:number], json.dumps(row), *lines[number + 1 :]]))
    where = rf"{name}\.jsonl, line {number + 1}: text must be a text, not None"
    with pytest.raises(DataError, match=where):
        pairs_of(beir)
    kept = [pair.query for pair in pairs_of(beir, skip_bad_rows=True)]
    assert kept == ["question 1" if name == "corpus" else "question 0"]


def test_damaged_files_are_told_by_their_line(beir: Path):
    judge(beir, "q1 d1 1")
    with pytest.raises(DataError, match=r"train\.tsv, line 2: expected query-id"):
        pairs_of(beir)
    judge(beir, "q1\td1\t1")
    (beir / "corpus.jsonl").write_text('{"_id": "d1"}\n')
    with pytest.raises(DataError, match=r"corpus\.jsonl, line 1: .*KeyError: 'text'"):
        pairs_of(beir)
