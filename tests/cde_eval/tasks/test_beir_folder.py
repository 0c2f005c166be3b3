import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import mteb
import pytest

from cde_core.errors import CdeWarning, DataError
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.protocols import PAPER
from cde_eval.tasks import jsonl_tables
from cde_eval.tasks.beir_folder import beir_task, evaluated_split, is_beir_folder, read_qrels
from cde_eval.tasks.lending import lent_documents
from tests.cde_eval.tiny_encoder import TinyEncoder

CORPUS = [
    {"_id": "d1", "title": "Bread", "text": "flour and water"},
    {"_id": "d2", "title": None, "text": "the mill grinds"},
    {"_id": 3, "text": "rain fills the river"},
]
QUERIES = [
    {"_id": "q1", "text": "what is bread of?"},
    {"_id": "q2", "text": "what fills the river?"},
    {"_id": "q3", "text": "nobody judged this"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\t3\t2\n"


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A right BEIR folder called `mills`, for a test to break."""
    folder = tmp_path / "mills"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(lines(CORPUS))
    (folder / "queries.jsonl").write_text(lines(QUERIES))
    (folder / "qrels" / "test.tsv").write_text(QRELS)
    return folder


def loaded(folder: Path) -> Any:
    task = beir_task(folder)
    task.load_data()
    return task.dataset["default"][task.eval_splits[0]]


# What is read


def test_a_folder_is_read_as_it_stands(folder: Path):
    data = loaded(folder)
    assert list(data["corpus"]) == [
        {"id": "d1", "text": "flour and water", "title": "Bread"},
        {"id": "d2", "text": "the mill grinds", "title": ""},
        {"id": "3", "text": "rain fills the river", "title": ""},
    ]
    assert list(data["queries"]) == [
        {"id": "q1", "text": "what is bread of?"},
        {"id": "q2", "text": "what fills the river?"},
    ]
    assert data["relevant_docs"] == {"q1": {"d1": 1, "d2": 0}, "q2": {"3": 2}}
    assert not data["top_ranked"]


def test_the_task_is_named_after_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert beir_task(folder).metadata.name == "mills"
    monkeypatch.chdir(folder)
    assert beir_task(Path()).metadata.name == "mills"
    assert beir_task(folder).metadata.type == "Retrieval"


def test_its_documents_are_lent_with_their_titles(folder: Path):
    task = beir_task(folder)
    task.load_data()
    documents = lent_documents(task, "test", "default", PAPER)
    assert documents == ["Bread flour and water", "the mill grinds", "rain fills the river"]


def test_mteb_evaluates_it(folder: Path):
    # Each query shares its words with the one document that answers it, so nDCG@10 is 1.
    task = beir_task(folder)
    model = MtebEncoder(TinyEncoder(context_size=0))
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    assert result.task_results[0].get_score() == pytest.approx(1)


def test_windows_line_ends_and_blank_lines_are_read(folder: Path):
    for path in (folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / "test.tsv"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    data = loaded(folder)
    assert len(data["corpus"]) == 3
    assert data["relevant_docs"] == {"q1": {"d1": 1, "d2": 0}, "q2": {"3": 2}}


def test_a_text_may_hold_a_line_separator(folder: Path):
    (folder / "corpus.jsonl").write_text(lines([{**CORPUS[0], "text": "a\u2028b"}, *CORPUS[1:]]))
    assert loaded(folder)["corpus"][0]["text"] == "a\u2028b"


def test_judgements_need_no_header(folder: Path):
    path = folder / "qrels" / "test.tsv"
    path.write_text("q1\td1\t1\nq1\td2\t-1\n")
    assert read_qrels(path) == {"q1": {"d1": 1, "d2": -1}}


@pytest.mark.parametrize(
    ("there", "evaluated"),
    [
        (("test", "dev", "train"), "test"),
        (("train", "dev"), "dev"),
        (("validation", "train"), "validation"),
        (("train",), "train"),
    ],
)
def test_the_split_is_the_first_of_test_dev_validation_train(
    folder: Path, there: tuple[str, ...], evaluated: str
):
    (folder / "qrels" / "test.tsv").unlink()
    for split in there:
        (folder / "qrels" / f"{split}.tsv").write_text(QRELS)
    assert evaluated_split(folder) == evaluated
    assert list(beir_task(folder).eval_splits) == [evaluated]
    assert loaded(folder)["relevant_docs"]["q2"] == {"3": 2}


def test_a_document_with_the_id_of_its_query_is_no_answer(folder: Path):
    # As beir does, unless a query is judged with the document of its own id.
    assert beir_task(folder).ignore_identical_ids is True


def test_a_query_that_is_judged_with_its_own_id_counts(folder: Path):
    (folder / "corpus.jsonl").write_text(lines([*CORPUS, {"_id": "q1", "text": "itself"}]))
    assert beir_task(folder).ignore_identical_ids is True
    (folder / "qrels" / "test.tsv").write_text(QRELS + "q1\tq1\t1\n")
    assert beir_task(folder).ignore_identical_ids is False


@pytest.mark.parametrize("part", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_another_content_is_another_revision(folder: Path, part: str):
    before = beir_task(folder).metadata.revision
    path = folder / part
    path.write_text(path.read_text() + "\n")
    assert beir_task(folder).metadata.revision != before


def test_the_same_content_elsewhere_is_the_same_revision(folder: Path, tmp_path: Path):
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(folder, copy)
    (copy / "notes.txt").write_text("no part of the data")
    assert beir_task(copy).metadata.revision == beir_task(folder).metadata.revision


# What is broken


@pytest.mark.parametrize("part", ["corpus.jsonl", "queries.jsonl", "qrels"])
def test_a_missing_part_is_named(folder: Path, part: str):
    path = folder / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert is_beir_folder(folder)
    with pytest.raises(DataError, match=f"mills has no {part}; it needs corpus.jsonl"):
        beir_task(folder)


def test_a_folder_of_something_else_is_no_beir_folder(tmp_path: Path):
    assert not is_beir_folder(tmp_path)
    assert not is_beir_folder(tmp_path / "nowhere")


def test_missing_judgements_are_named(folder: Path):
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "gold.tsv")
    with pytest.raises(DataError, match=r"no judgements in qrels/; it needs one of test\.tsv, dev"):
        beir_task(folder)


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("corpus.jsonl", '{"_id": "x", "text": "cut'),
        ("corpus.jsonl", '{"_id": "x"}'),
        ("corpus.jsonl", '{"text": "x"}'),
        ("corpus.jsonl", "[]"),
        ("corpus.jsonl", '{"_id": "x", "text": null}'),
        ("queries.jsonl", '{"_id": null, "text": "x"}'),
        ("queries.jsonl", '"x"'),
        ("queries.jsonl", "{'_id': 'x', 'text': 'y'}"),
    ],
)
def test_a_broken_line_is_named_by_file_and_number(folder: Path, part: str, line: str):
    path = folder / part
    path.write_text(path.read_text() + f"\n{line}\n")  # three lines, a blank one, the broken one
    with pytest.raises(DataError, match=rf"{part}, line 5: not a JSON object with `_id`"):
        loaded(folder)


@pytest.mark.parametrize(
    "line", ["q1 d1 1", "q1\t0\td1\t1", "q1\td1\t0.5", "q1\td1", "q1\td1\t--1", "q1\td1\t²"]
)
def test_a_broken_judgement_is_named_by_file_and_number(folder: Path, line: str):
    path = folder / "qrels" / "test.tsv"
    path.write_text(QRELS + line + "\n")
    with pytest.raises(DataError, match=r"test\.tsv, line 5: expected query-id, corpus-id and"):
        beir_task(folder)


def test_judgements_that_are_not_text_are_named(folder: Path):
    (folder / "qrels" / "test.tsv").write_bytes(b"q1\td\xff\t1\n")
    with pytest.raises(DataError, match=r"test\.tsv is not text in UTF-8"):
        loaded(folder)


def test_a_judged_query_that_is_not_there_is_named(folder: Path):
    (folder / "qrels" / "test.tsv").write_text(QRELS + "q9\td1\t1\n")
    with pytest.raises(DataError, match=r"judges the query 'q9', which queries\.jsonl does not"):
        loaded(folder)


def test_a_judged_document_that_is_not_there_is_named_with_its_query(folder: Path):
    (folder / "qrels" / "test.tsv").write_text(QRELS + "q1\td9\t1\n")
    with pytest.raises(DataError, match=r"document 'd9' for the query 'q1'.*no such document"):
        loaded(folder)


def test_an_empty_corpus_is_an_error(folder: Path):
    (folder / "corpus.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"corpus\.jsonl is empty; there is nothing to search"):
        loaded(folder)


def test_judgements_with_nothing_below_the_header_are_an_error(folder: Path):
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(DataError, match="has no judgements; there is nothing to score"):
        loaded(folder)


@pytest.mark.parametrize(
    ("part", "row"), [("corpus.jsonl", CORPUS[0]), ("queries.jsonl", QUERIES[0])]
)
def test_an_id_that_is_there_twice_is_named(folder: Path, part: str, row: dict[str, Any]):
    path = folder / part
    path.write_text(path.read_text() + lines([row]))
    with pytest.raises(DataError, match=rf"{part}, line 4: the id '{row['_id']}' is there twice"):
        loaded(folder)


# A large corpus


@pytest.fixture
def kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every corpus counts as large, a block has two rows, and nothing is in the cache folder."""
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jsonl_tables, "KEPT_FROM", 0)
    monkeypatch.setattr(jsonl_tables, "BLOCK_ROWS", 2)
    return tmp_path / "cache" / "corpora"


def test_a_large_corpus_is_what_a_small_one_is(folder: Path, kept: Path, monkeypatch: Any):
    large = loaded(folder)
    assert [file.suffix for file in kept.iterdir() if file.suffix != ".lock"] == [".arrow"]
    assert large["corpus"].cache_files
    monkeypatch.undo()
    small = loaded(folder)
    assert not small["corpus"].cache_files
    assert large["corpus"].features == small["corpus"].features
    assert list(large["corpus"]) == list(small["corpus"])
    assert large["relevant_docs"] == small["relevant_docs"]


def test_mteb_evaluates_a_large_one(folder: Path, kept: Path):
    test_mteb_evaluates_it(folder)
    test_its_documents_are_lent_with_their_titles(folder)


def test_a_large_corpus_is_read_from_json_once(folder: Path, kept: Path):
    before = list(loaded(folder)["corpus"])
    task = beir_task(folder)
    (folder / "corpus.jsonl").write_text("no JSON any more")
    task.load_data()
    assert list(task.dataset["default"]["test"]["corpus"]) == before


def test_a_changed_corpus_is_read_again(folder: Path, kept: Path):
    assert loaded(folder)["corpus"][2]["text"] == "rain fills the river"
    (folder / "corpus.jsonl").write_text(lines([*CORPUS[:2], {"_id": 3, "text": "snow"}]))
    assert loaded(folder)["corpus"][2]["text"] == "snow"


@pytest.mark.parametrize("left", [0, 7, -1, -8, -200])
def test_a_file_of_the_cache_that_was_cut_is_made_again(folder: Path, kept: Path, left: int):
    before = list(loaded(folder)["corpus"])
    (file,) = kept.glob("*.arrow")
    content = file.read_bytes()
    file.unlink()  # the first one may still be mapped
    file.write_bytes(content[:left])
    assert list(loaded(folder)["corpus"]) == before
    assert file.read_bytes() == content


def test_a_broken_large_corpus_leaves_nothing_in_the_cache(folder: Path, kept: Path):
    path = folder / "corpus.jsonl"
    path.write_text(path.read_text() + "\n\n" + lines([{"_id": "x", "text": "y"}, CORPUS[1]]))
    with pytest.raises(DataError, match=r"corpus\.jsonl, line 7: the id 'd2' is there twice"):
        loaded(folder)
    assert [file.suffix for file in kept.iterdir()] == [".lock"]


def test_without_a_cache_folder_a_large_corpus_is_held_in_memory(
    folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CDE_EVAL_CACHE", str(folder / "queries.jsonl"))
    with pytest.warns(CdeWarning, match="set CDE_EVAL_CACHE to a folder that can be written"):
        assert len(loaded(folder)["corpus"]) == len(CORPUS)


def test_ids_with_the_same_hash_are_not_the_same_id(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jsonl_tables, "hash", lambda _: 7, raising=False)
    assert len(loaded(folder)["corpus"]) == len(CORPUS)


def test_a_block_is_also_full_with_so_many_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jsonl_tables, "BLOCK_BYTES", 1)
    corpus = loaded(folder)["corpus"]
    assert corpus.data.column("id").num_chunks == len(CORPUS)


@pytest.mark.parametrize(
    "line", [b'{"_id": "x", "text": "\xff"}', b'{"_id": "x", "text": "\\ud800"}']
)
def test_a_text_that_is_no_unicode_is_named_by_its_line(folder: Path, line: bytes):
    path = folder / "corpus.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(DataError, match=r"corpus\.jsonl, line 4: not a JSON object.*utf-8"):
        loaded(folder)


def test_only_a_block_of_a_corpus_is_python_objects(
    folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
):
    # 20,000 documents with an id and a text take at least 20,000 * 2 * 50 bytes = 2 MB of objects;
    # 500 of them 50 kB, and their hashes 160 kB twice.
    monkeypatch.setattr(jsonl_tables, "BLOCK_ROWS", 500)
    rows = [{"_id": f"more{number}", "text": f"text {number}"} for number in range(20_000)]
    (folder / "corpus.jsonl").write_text(lines([*CORPUS, *rows]))
    task = beir_task(folder)
    del rows
    tracemalloc.start()
    task.load_data()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
