import json
from pathlib import Path
from typing import Any

import pytest
from beir.datasets.data_loader import GenericDataLoader
from beir.datasets.data_loader_hf import HFDataLoader

from cde_core.errors import DataError
from cde_eval.protocols import PAPER
from cde_eval.tasks.beir_folder import beir_task
from cde_eval.tasks.from_beir import task_from_beir
from cde_eval.tasks.lending import lent_documents

CORPUS: dict[str, dict[str, str | None]] = {
    "d1": {"title": "Bread", "text": "flour and water"},
    "d2": {"title": None, "text": "the mill grinds"},
    "d3": {"text": "rain fills the river"},
}
QUERIES = {"q1": "what is bread of?", "q2": "what fills the river?"}
QRELS = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data above as a BEIR folder called `mills`."""
    folder = tmp_path / "mills"
    (folder / "qrels").mkdir(parents=True)
    parts: dict[str, Any] = {
        "corpus.jsonl": [{"_id": key, **value} for key, value in CORPUS.items()],
        "queries.jsonl": [{"_id": key, "text": text} for key, text in QUERIES.items()],
    }
    for name, rows in parts.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"{q}\t{d}\t{score}\n" for q, found in QRELS.items() for d, score in found.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


def data_of(task: Any) -> Any:
    task.load_data()
    return task.dataset["default"][task.eval_splits[0]]


def test_the_task_holds_what_the_loader_returned():
    task = task_from_beir("Mills", CORPUS, QUERIES, QRELS, split="dev")
    data = data_of(task)
    assert list(data["corpus"]) == [
        {"id": "d1", "text": "flour and water", "title": "Bread"},
        {"id": "d2", "text": "the mill grinds", "title": ""},
        {"id": "d3", "text": "rain fills the river", "title": ""},
    ]
    assert list(data["queries"]) == [{"id": key, "text": text} for key, text in QUERIES.items()]
    assert data["relevant_docs"] == QRELS
    assert (task.metadata.name, task.metadata.type) == ("Mills", "Retrieval")
    assert list(task.eval_splits) == ["dev"]
    lent = lent_documents(task, "dev", "default", PAPER)
    assert list(lent) == ["Bread flour and water", "the mill grinds", "rain fills the river"]


@pytest.mark.parametrize("loader", [GenericDataLoader, HFDataLoader])
def test_both_loaders_of_beir_give_what_the_folder_gives(
    loader: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", folder.parent / "datasets")
    corpus, queries, qrels = loader(data_folder=str(folder)).load("test")
    task = task_from_beir("mills", corpus, queries, qrels)
    ours, theirs = data_of(task), data_of(beir_task(folder))
    for part in ("corpus", "queries"):
        assert list(ours[part]) == list(theirs[part])
        assert ours[part].features == theirs[part].features
    assert ours["relevant_docs"] == theirs["relevant_docs"]


def test_queries_that_nobody_judged_are_left_out():
    task = task_from_beir("Mills", CORPUS, {"q0": "judged by nobody", **QUERIES}, QRELS)
    assert data_of(task)["queries"]["id"] == ["q1", "q2"]


def test_ids_may_be_numbers():
    corpus: Any = {1: {"title": "", "text": "one"}}
    queries: Any = {7: "which?"}
    data = data_of(task_from_beir("Numbers", corpus, queries, {"7": {"1": 1}}))
    assert data["corpus"][0]["id"] == "1" and data["queries"][0]["id"] == "7"
    assert data["relevant_docs"] == {"7": {"1": 1}}


def test_a_document_with_the_id_of_its_query_counts_only_where_it_is_judged():
    itself = {**CORPUS, "q1": {"text": "itself"}}
    assert task_from_beir("A", itself, QUERIES, QRELS).ignore_identical_ids is True
    judged = {**QRELS, "q1": {"q1": 1}}
    assert task_from_beir("A", itself, QUERIES, judged).ignore_identical_ids is False


def test_the_revision_is_that_of_the_content():
    def revision(corpus: Any = CORPUS, queries: Any = QUERIES, qrels: Any = QRELS) -> str:
        return str(task_from_beir("Mills", corpus, queries, qrels).metadata.revision)

    assert revision() == revision({**CORPUS}) == revision(queries={**QUERIES, "q9": "unjudged"})
    others = {
        revision({**CORPUS, "d3": {"text": "rain"}}),
        revision({**CORPUS, "d3": {"title": "T", "text": "rain fills the river"}}),
        revision(dict(reversed(CORPUS.items()))),
        revision(queries={**QUERIES, "q2": "what?"}),
        revision(qrels={**QRELS, "q2": {"d3": 1}}),
    }
    assert len(others | {revision()}) == 6


def test_the_task_can_be_made_and_loaded_twice():
    for _ in range(2):
        task = task_from_beir("Mills", CORPUS, QUERIES, QRELS)
        assert len(data_of(task)["corpus"]) == len(data_of(task)["corpus"]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qrels": {"q9": {"d1": 1}}}, "judges the query 'q9', which its queries do not have"),
        ({"qrels": {"q1": {"d9": 1}}}, "document 'd9' for the query 'q1', and its corpus"),
        ({"qrels": {}}, "Mills has no judgements"),
        ({"corpus": {}}, "Mills has no documents"),
        ({"corpus": {"d1": {"title": "T", "text": None}}}, "document 'd1' of Mills has no text"),
    ],
)
def test_parts_that_do_not_fit_are_named(change: dict[str, Any], message: str):
    parts: Any = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, **change}
    with pytest.raises(DataError, match=message):
        task_from_beir("Mills", **parts)
