import dataclasses
import json
import math
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from cde_core.errors import DataError
from cde_eval.trec_run import CandidateLists, RunHeader, read_run, write_run

HEADER = RunHeader(
    retriever="org/a model",
    retriever_revision="main \\ \u2028 ü",
    settings={"context": "corpus", "protocol": "paper", "dtype": "float32"},
    task="Mills",
    split="test",
    subset="default",
    data_revision="sha256-0123456789ab",
    data_hash="",
    depth=3,
    excludes_own_id=True,
)
LISTS = {
    "q2": [("d1", 0.5), ("d3", 0.25), ("d2", -1.0)],
    "q1": [("d2", 12.0), ("NA", 12.0)],
    "10": [('"d4"', 1e-30), ("null", 0.0), ("ü#,\\", -1e20)],
}
QRELS = {"q2": {"d3": 1, "d2": 2}, "q1": {"NA": 1, "d1": 1}, "10": {"null": 3}, "q9": {"d1": 1}}


def run_of(lists: dict[str, list[tuple[str, float]]]) -> CandidateLists:
    return CandidateLists(HEADER, lists)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run file with `LISTS`."""
    path = tmp_path / "runs" / "mills.run"
    write_run(path, run_of(LISTS))
    return path


# What is written is read


def test_what_was_written_is_read(path: Path):
    read = read_run(path)
    assert read.header == HEADER
    assert list(read.lists) == ["q2", "q1", "10"]
    rounded = {
        query: [(document, float(np.float32(score))) for document, score in candidates]
        for query, candidates in LISTS.items()
    }
    assert {query: list(read.lists[query]) for query in read.lists} == rounded
    assert read == CandidateLists(HEADER, rounded)
    assert read.sha256 == run_of(LISTS).sha256


def test_the_best_of_each_list_can_be_taken(path: Path):
    for run in (run_of(LISTS), read_run(path)):
        assert run.top(2) == {"q2": ["d1", "d3"], "q1": ["d2", "NA"], "10": ['"d4"', "null"]}
        assert run.top(0) == {"q2": [], "q1": [], "10": []}


def test_a_run_that_was_read_is_written_as_it_was(path: Path):
    copy = path.with_name("copy.run")
    write_run(copy, read_run(path))
    assert copy.read_bytes() == path.read_bytes()


def test_every_float32_comes_back_bit_for_bit(path: Path):
    bits = np.random.default_rng(0).integers(0, 2**32, 50_000, dtype=np.uint32)
    edges = np.array([0.0, 1e-45, 1.17549435e-38, 3.4028235e38, 0.1, 1 / 3, 16777217], np.float32)
    scores = np.unique(np.concatenate([bits.view(np.float32), edges, -edges[1:]]))
    scores = scores[np.isfinite(scores)][::-1]
    pairs = [(f"d{row}", score) for row, score in enumerate(scores.tolist())]
    write_run(path, run_of({"q": pairs}))
    assert list(read_run(path).lists["q"]) == pairs
    with path.open() as file:  # and for whoever reads a double and rounds it
        theirs = pytrec_eval.parse_run(file)["q"]
    assert [np.float32(theirs[document]) for document, _ in pairs] == scores.tolist()


def test_no_lists_at_all_and_empty_ones_are_a_file_too(path: Path):
    write_run(path, run_of({}))
    assert dict(read_run(path).lists) == {}
    write_run(path, run_of({"q1": [], "q2": [("d", 1.0)]}))
    assert dict(read_run(path).lists) == {"q2": [("d", 1.0)]}


def test_more_lines_than_a_reader_takes_at_once_come_back(path: Path):
    lists = {
        f"q{query}": [(f"document-{query * 7 + rank}", -float(rank)) for rank in range(500)]
        for query in range(150)
    }
    write_run(path, run_of(lists))
    assert path.stat().st_size > 2 << 20
    assert read_run(path) == run_of(lists)


# What other tools read


def without_header(path: Path) -> Path:
    bare = path.with_name("bare.run")
    bare.write_text(path.read_text().split("\n", 1)[1])
    return bare


def test_a_line_is_what_the_format_says(path: Path):
    assert without_header(path).read_text().split("\n")[:3] == [
        "q2 Q0 d1 1 0.5 cde-eval",
        "q2 Q0 d3 2 0.25 cde-eval",
        "q2 Q0 d2 3 -1 cde-eval",
    ]


def test_every_line_has_six_columns_and_the_header_is_json(path: Path):
    lines = path.read_text().splitlines()
    assert {len(line.split()) for line in lines} == {6} == {len(line.split(" ")) for line in lines}
    query, iteration, header, *rest = lines[0].split()
    assert (query, iteration, rest) == ("#", "Q0", ["0", "0", "cde-eval"])
    content = json.loads(header)
    assert content["sha256"] == run_of(LISTS).sha256
    assert dataclasses.asdict(HEADER).items() <= content.items()


def test_pytrec_eval_gives_the_same_with_and_without_the_header(path: Path):
    evaluator = pytrec_eval.RelevanceEvaluator(QRELS, {"ndcg_cut.10", "map", "recip_rank"})
    results = []
    for file in (path, without_header(path)):
        with file.open() as lines:
            results.append(evaluator.evaluate(pytrec_eval.parse_run(lines)))
    assert results[0] == results[1]
    assert results[0].keys() == LISTS.keys()
    # q2 ranks gains 0, 1, 2, and the ideal order is 2, 1.
    ideal = 2 + 1 / math.log2(3)
    assert results[0]["q2"]["ndcg_cut_10"] == pytest.approx((1 / math.log2(3) + 1) / ideal)


def test_ir_measures_gives_the_same_with_and_without_the_header(path: Path):
    measures = [ir_measures.nDCG @ 10, ir_measures.RR, ir_measures.R @ 100]
    results = [
        ir_measures.calc_aggregate(measures, QRELS, ir_measures.read_trec_run(str(file)))
        for file in (path, without_header(path))
    ]
    assert results[0] == results[1]
    # Each of three queries has its first answer at rank 2 (equal scores: the greater id is first),
    # and of the fourth nothing was found.
    assert results[0][ir_measures.RR] == pytest.approx((1 / 2 + 1 / 2 + 1 / 2 + 0) / 4)


# What is refused


@pytest.mark.parametrize("wrong", ["a b", "a\tb", "a\u00a0b", " a", "a\n", ""])
def test_an_id_with_whitespace_is_refused_and_named(path: Path, wrong: str):
    before = path.read_bytes()
    for lists in ({"q1": [("d1", 1.0)], wrong: [("d1", 1.0)]}, {"q1": [("d1", 2.0), (wrong, 1.0)]}):
        with pytest.raises(DataError, match="cannot hold the id") as caught:
            write_run(path, run_of(lists))
        assert repr(wrong) in str(caught.value)
    assert path.read_bytes() == before


def test_a_query_called_as_the_header_is_refused(path: Path):
    with pytest.raises(DataError, match="cannot hold a query '#'"):
        write_run(path, run_of({"#": [("d1", 1.0)]}))


def test_a_document_that_is_twice_in_a_list_is_refused(path: Path):
    with pytest.raises(DataError, match="twice among the candidates of the query 'q1'"):
        write_run(path, run_of({"q1": [("d1", 1.0), ("d1", 0.5)]}))


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_refused(path: Path, score: float):
    with pytest.raises(DataError, match="'q1' has a score that is no finite number"):
        write_run(path, run_of({"q1": [("d1", score), ("d2", 0.5)]}))


def test_a_list_that_is_not_best_first_is_a_bug(path: Path):
    with pytest.raises(ValueError, match="not best first"):
        write_run(path, run_of({"q1": [("d1", 0.5), ("d2", 1.0)]}))


@pytest.mark.parametrize("left", [-1, -30, -60])
def test_a_file_that_was_cut_is_noticed(path: Path, left: int):
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataError, match=r"was cut or changed after it was written.*delete it"):
        read_run(path)


def test_a_changed_score_is_noticed(path: Path):
    path.write_text(path.read_text().replace(" 0.25 ", " 0.26 "))
    with pytest.raises(DataError, match="was cut or changed after it was written"):
        read_run(path)


@pytest.mark.parametrize(
    "first",
    ["", "q1 Q0 d1 1 0.5 tag", "# Q0 {} 0 0 cde-eval", "# Q0 [] 0 0 cde-eval", '# Q0 {"x', "#"],
)
def test_a_run_of_someone_else_is_named_so(path: Path, first: str):
    path.write_text(first + "\n")
    with pytest.raises(DataError, match="does not begin with the header that cde-eval writes"):
        read_run(path)


def test_a_header_that_says_less_or_more_is_not_believed(path: Path):
    content = path.read_text()
    for wrong in (content.replace('"depth":3,', ""), content.replace('"depth"', '"x":1,"depth"')):
        path.write_text(wrong)
        with pytest.raises(DataError, match="does not begin with the header"):
            read_run(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"no\.run cannot be read \(No such file"):
        read_run(tmp_path / "no.run")
