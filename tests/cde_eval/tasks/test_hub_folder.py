import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import mteb
import pytest

from cde_core.errors import CdeWarning, DataError
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.protocols import PAPER
from cde_eval.tasks.hub_folder import (
    data_files,
    inferred_task,
    is_hub_folder,
    official_task,
    official_tasks,
)
from cde_eval.tasks.lending import lent_documents
from tests.cde_eval.tiny_encoder import TinyEncoder

Rows = Sequence[Mapping[str, Any]]


@pytest.fixture(autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, and a cache of its own: what is read can only come from the folder."""

    def refuse(*args: object) -> None:
        raise AssertionError("a test tried to reach the network")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("hf"))
    monkeypatch.setattr(socket.socket, "connect", refuse)


def write_folder(folder: Path, configs: Mapping[str, Mapping[str, Rows]]) -> Path:
    """Write a folder as the hub lays it out: a card that names configurations and splits."""
    card = ["---", "configs:"]
    for config, splits in configs.items():
        card += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            path = folder / config / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            card += [f"  - split: {split}", f"    path: {config}/{split}.jsonl"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text("\n".join([*card, "---", "", "# For people"]))
    return folder


CORPUS = [
    {"_id": "d1", "title": "Bread", "text": "flour and water"},
    {"_id": "d2", "title": "", "text": "the mill grinds"},
    {"_id": "d3", "title": "", "text": "rain fills the river"},
]
QUERIES = [
    {"_id": "q1", "text": "what is bread of?"},
    {"_id": "q2", "text": "what does a mill do?"},
]
QRELS = [
    {"query-id": "q1", "corpus-id": "d1", "score": 1},
    {"query-id": "q2", "corpus-id": "d2", "score": 2},
]
SEARCH = {"corpus": {"corpus": CORPUS}, "queries": {"queries": QUERIES}, "default": {"test": QRELS}}
STS_ROWS = [
    {"sentence1": f"left {n}", "sentence2": f"right {n}", "score": float(n)} for n in range(4)
]
LABELLED = [
    {"text": f"{'oven' if n % 2 else 'boat'} {n}", "label": n % 2, "label_text": "secret"}
    for n in range(12)
]


def score(task: Any) -> float:
    model = MtebEncoder(TinyEncoder(context_size=0))
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    return float(result.task_results[0].get_score())


# Official data sets


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("mteb/nfcorpus", ["NFCorpus"]),
        ("mteb/NFCorpus", ["NFCorpus"]),
        ("mteb/sts12-sts", ["STS12"]),
        ("mteb/banking77", ["Banking77Classification", "Banking77Classification.v2"]),
        ("someone/nfcorpus", []),
        ("nfcorpus", []),
    ],
)
def test_an_official_data_set_is_known_by_organisation_and_name(
    tmp_path: Path, name: str, tasks: list[str]
):
    assert official_tasks(tmp_path / name) == tasks


def test_a_folder_is_known_by_its_name_from_inside(tmp_path: Path, monkeypatch: Any):
    folder = write_folder(tmp_path / "mteb" / "sts12-sts", {"default": {"test": STS_ROWS}})
    monkeypatch.chdir(folder)
    assert official_tasks(Path()) == ["STS12"]


def test_an_official_search_task_reads_from_its_folder(tmp_path: Path):
    task = official_task("NFCorpus", write_folder(tmp_path / "mteb" / "nfcorpus", SEARCH))
    assert isinstance(task, type(mteb.get_task("NFCorpus")))
    task.load_data()
    data = task.dataset["default"]["test"]
    assert data["corpus"]["id"] == ["d1", "d2", "d3"]
    assert data["relevant_docs"] == {"q1": {"d1": 1}, "q2": {"d2": 2}}
    assert lent_documents(task, "test", "default", PAPER)[0] == "Bread flour and water"
    assert score(task) == pytest.approx(1)


def test_an_official_task_keeps_its_revision_and_mtebs_own_object_its_path(tmp_path: Path):
    task = official_task("NFCorpus", write_folder(tmp_path / "mteb" / "nfcorpus", SEARCH))
    official = mteb.get_task("NFCorpus")
    assert task.metadata.revision == official.metadata.revision
    assert official.metadata.dataset["path"] == "mteb/nfcorpus"


def test_an_official_pair_task_reads_from_its_folder(tmp_path: Path):
    folder = write_folder(tmp_path / "mteb" / "sts12-sts", {"default": {"test": STS_ROWS}})
    task = official_task("STS12", folder)
    task.load_data()
    assert task.dataset["test"]["sentence1"] == ["left 0", "left 1", "left 2", "left 3"]
    assert -1 <= score(task) <= 1


def test_an_official_classification_task_reads_from_its_folder(tmp_path: Path):
    folder = write_folder(
        tmp_path / "mteb" / "banking77", {"default": {"train": LABELLED, "test": LABELLED[:4]}}
    )
    task = official_task("Banking77Classification", folder)
    task.load_data()
    assert lent_documents(task, "test", "default", PAPER) == [row["text"] for row in LABELLED]
    # "oven" is one label and "boat" the other, and the words are in the training texts.
    assert score(task) == pytest.approx(1)


def test_only_the_subsets_that_are_there_are_evaluated(tmp_path: Path):
    # STS17 has eleven pairs of languages.
    folder = write_folder(
        tmp_path / "mteb" / "sts17-crosslingual-sts",
        {"en-de": {"test": STS_ROWS}, "es-es": {"test": STS_ROWS[:2]}},
    )
    task = official_task("STS17", folder)
    assert sorted(task.hf_subsets) == ["en-de", "es-es"]


def test_only_the_splits_that_are_there_are_evaluated(tmp_path: Path):
    # MassiveIntent is evaluated on validation and test.
    asked = mteb.get_task("MassiveIntentClassification")
    assert {"validation", "test"} <= set(asked.eval_splits)
    folder = write_folder(
        tmp_path / asked.metadata.dataset["path"], {"de": {"train": LABELLED, "test": LABELLED}}
    )
    task = official_task("MassiveIntentClassification", folder)
    assert list(task.eval_splits) == ["test"]
    assert task.hf_subsets == ["de"]


def test_one_configuration_serves_a_task_of_one_subset_whatever_it_is_called(tmp_path: Path):
    folder = write_folder(tmp_path / "mteb" / "sts12-sts", {"sts12": {"test": STS_ROWS}})
    task = official_task("STS12", folder)
    task.load_data()
    assert len(task.dataset["test"]) == 4


def test_a_folder_with_none_of_the_subsets_names_both_sides(tmp_path: Path):
    folder = write_folder(
        tmp_path / "mteb" / "sts17-crosslingual-sts", {"xx-yy": {"test": STS_ROWS}}
    )
    with pytest.raises(DataError, match=r"configurations xx-yy, and STS17 needs one of .*en-de"):
        official_task("STS17", folder)


def test_a_folder_with_none_of_the_splits_names_both_sides(tmp_path: Path):
    folder = write_folder(tmp_path / "mteb" / "sts12-sts", {"default": {"train": STS_ROWS}})
    with pytest.raises(DataError, match=r"holds the splits train, and STS12 is evaluated on test"):
        official_task("STS12", folder)


def test_a_search_folder_without_a_corpus_is_named(tmp_path: Path):
    folder = write_folder(tmp_path / "mteb" / "nfcorpus", {"default": {"test": QRELS}})
    with pytest.raises(DataError, match="configurations default, and NFCorpus needs"):
        official_task("NFCorpus", folder)


# Other folders


def inferred(folder: Path) -> Any:
    task = inferred_task(folder)
    task.load_data()
    return task


ONE_SET = {"sentences": ["oven one", "boat two"], "labels": ["kitchen", "sea"]}
COLUMNS = {
    "Summarization": [
        {"text": "t", "human_summaries": ["a"], "machine_summaries": ["b"], "relevance": [1.0]}
    ],
    "STS": STS_ROWS,
    "PairClassification": [{"sentence1": "a", "sentence2": "b", "labels": 1}],
    "Clustering": [{"sentences": "oven one", "labels": "kitchen"}],
    "Classification": LABELLED,
    "MultilabelClassification": [{"text": "a", "label": [1, 2]}],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_columns_tell_the_type_of_task(tmp_path: Path, kind: str):
    splits = {"train": COLUMNS[kind], "test": COLUMNS[kind]}
    task = inferred(write_folder(tmp_path / "mine" / "mills", {"default": splits}))
    assert task.metadata.type == kind
    assert task.metadata.name == "mills"
    assert list(task.eval_splits) == ["test"]
    assert lent_documents(task, "test", "default", PAPER)


def test_rows_that_hold_sets_of_sentences_are_clustered_set_by_set(tmp_path: Path):
    task = inferred(write_folder(tmp_path / "sets", {"default": {"test": [ONE_SET, ONE_SET]}}))
    assert isinstance(task, mteb.abstasks.AbsTaskClusteringLegacy)
    assert lent_documents(task, "test", "default", PAPER) == ["oven one", "boat two"] * 2


@pytest.mark.parametrize("qrels", ["default", "qrels"])
def test_a_corpus_and_queries_make_a_search_task(tmp_path: Path, qrels: str):
    configs = {name: SEARCH[name] for name in ("corpus", "queries")} | {qrels: {"test": QRELS}}
    task = inferred(write_folder(tmp_path / "mills", configs))
    assert (task.metadata.type, task.metadata.main_score) == ("Retrieval", "ndcg_at_10")
    assert task.dataset["default"]["test"]["relevant_docs"] == {"q1": {"d1": 1}, "q2": {"d2": 2}}
    assert score(task) == pytest.approx(1)


@pytest.mark.parametrize("qrels", ["default", "qrels"])
def test_lists_of_candidates_make_it_a_reranking_task(tmp_path: Path, qrels: str):
    candidates = [
        {"query-id": "q1", "corpus-ids": ["d2", "d1"]},
        {"query-id": "q2", "corpus-ids": ["d2"]},
    ]
    configs = {name: SEARCH[name] for name in ("corpus", "queries")}
    configs |= {qrels: {"test": QRELS}, "top_ranked": {"test": candidates}}
    task = inferred(write_folder(tmp_path / "mills", configs))
    assert task.metadata.type == "Reranking"
    assert task.dataset["default"]["test"]["top_ranked"] == {"q1": ["d2", "d1"], "q2": ["d2"]}
    assert len(lent_documents(task, "test", "default", PAPER)) == 2


def test_a_corpus_and_queries_without_judgements_are_named(tmp_path: Path):
    configs = {name: SEARCH[name] for name in ("corpus", "queries")}
    with pytest.raises(DataError, match="judgements"):
        inferred_task(write_folder(tmp_path / "mills", configs))


@pytest.mark.parametrize(
    ("there", "evaluated"),
    [
        (("train", "validation"), "validation"),
        (("train", "dev"), "dev"),
        (("train", "validation", "test"), "test"),
    ],
)
def test_the_training_split_is_not_evaluated_where_there_is_another(
    tmp_path: Path, there: tuple[str, ...], evaluated: str
):
    splits = dict.fromkeys(there, LABELLED)
    labelled = inferred_task(write_folder(tmp_path / "labelled", {"default": splits}))
    assert list(labelled.eval_splits) == [evaluated]
    configs = {**SEARCH, "default": dict.fromkeys(there, QRELS)}
    assert list(inferred_task(write_folder(tmp_path / "s", configs)).eval_splits) == [evaluated]


def test_a_split_of_any_name_is_evaluated_if_it_is_the_only_one(tmp_path: Path):
    task = inferred_task(write_folder(tmp_path / "x", {"default": {"gold": STS_ROWS}}))
    assert list(task.eval_splits) == ["gold"]


def test_a_classification_folder_without_a_train_split_is_named(tmp_path: Path):
    folder = write_folder(tmp_path / "x", {"default": {"test": LABELLED}})
    with pytest.raises(DataError, match="train"):
        inferred_task(folder)


def test_configurations_that_are_not_scored_are_said(tmp_path: Path):
    folder = write_folder(tmp_path / "x", {"en": {"test": STS_ROWS}, "de": {"test": STS_ROWS[:1]}})
    with pytest.warns(CdeWarning, match="holds the configurations en, de, of which en is scored"):
        task = inferred(folder)
    assert len(task.dataset["test"]) == len(STS_ROWS)


def test_columns_that_fit_no_task_are_named_with_those_that_do(tmp_path: Path):
    folder = write_folder(tmp_path / "x", {"default": {"test": [{"text": "a", "author": "b"}]}})
    with pytest.raises(DataError, match=r"columns text, author, which fit no task \(Summarization"):
        inferred_task(folder)


def test_a_folder_that_cannot_be_read_is_named_in_one_line(tmp_path: Path):
    folder = write_folder(tmp_path / "x", {"default": {"test": STS_ROWS}})
    (folder / "default" / "test.jsonl").unlink()
    with pytest.raises(DataError, match=r"data set folder .* cannot be read") as error:
        inferred_task(folder)
    assert "\n" not in str(error.value)


def test_another_content_is_another_revision(tmp_path: Path):
    folder = write_folder(tmp_path / "x", {"default": {"test": STS_ROWS}})
    before = inferred_task(folder).metadata.revision
    assert inferred_task(folder).metadata.revision == before
    write_folder(folder, {"default": {"test": STS_ROWS[:2]}})
    task = inferred(folder)
    assert task.metadata.revision != before
    assert len(task.dataset["test"]) == 2


def test_a_folder_that_was_changed_is_read_anew(tmp_path: Path):
    # The cache of `datasets` knows a folder with a card by its name alone, whatever is in it.
    folder = tmp_path / "mteb" / "sts12-sts"
    for rows in (STS_ROWS, STS_ROWS[:2]):
        task = official_task("STS12", write_folder(folder, {"default": {"test": rows}}))
        task.load_data()
        assert list(task.dataset["test"]) == rows


def test_folders_of_one_name_are_not_taken_for_each_other(tmp_path: Path):
    for number, documents in enumerate((CORPUS, CORPUS[:2])):
        configs = {**SEARCH, "corpus": {"corpus": documents}}
        own = tmp_path / str(number)
        official = official_task("NFCorpus", write_folder(own / "mteb" / "nfcorpus", configs))
        official.load_data()
        other = inferred(write_folder(own / "mills", configs))
        for task in (official, other):
            assert len(task.dataset["default"]["test"]["corpus"]) == len(documents)


def test_the_cache_of_other_data_sets_stays_where_it_was(tmp_path: Path):
    before = datasets.config.HF_DATASETS_CACHE
    inferred(write_folder(tmp_path / "x", {"default": {"test": STS_ROWS}}))
    assert datasets.config.HF_DATASETS_CACHE == before


# What is a folder of the hub


def test_a_readme_for_people_is_no_data_set(tmp_path: Path):
    (tmp_path / "data.jsonl").write_text("{}\n")
    assert not is_hub_folder(tmp_path)
    (tmp_path / "README.md").write_text("# My notes\n\n---\n")
    assert not is_hub_folder(tmp_path)
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    assert is_hub_folder(tmp_path)


def test_a_readme_in_another_encoding_is_no_obstacle(tmp_path: Path):
    (tmp_path / "README.md").write_bytes(b"---\n\xe9 ---")
    (tmp_path / "rows.jsonl").write_text("{}")
    assert is_hub_folder(tmp_path)


def test_a_card_without_data_is_no_data_set(tmp_path: Path):
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    (tmp_path / "notes.txt").write_text("nothing")
    assert not is_hub_folder(tmp_path)


def test_data_files_are_found_at_any_depth_and_the_card_is_none(tmp_path: Path):
    folder = write_folder(tmp_path, {"a": {"test": STS_ROWS}, "b": {"test": STS_ROWS}})
    (folder / "b" / "model.safetensors").write_bytes(b"")
    assert sorted(path.relative_to(folder).as_posix() for path in data_files(folder)) == [
        "a/test.jsonl",
        "b/test.jsonl",
    ]
