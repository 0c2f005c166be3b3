from typing import Any

import mteb
import pytest
from datasets import Dataset
from mteb._create_dataloaders import _retrieval_texts
from mteb.mocks.mock_tasks import (
    MockMultilingualBitextMiningTask,
    MockMultilingualParallelBitextMiningTask,
)
from mteb.types import PromptType

from cde_core.errors import ContextError
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.protocols import AUTHOR, MTEB, PAPER, PROTOCOLS, Protocol
from cde_eval.tasks.corpus_texts import corpus_texts
from cde_eval.tasks.lending import lending_split, lending_subset, lent_documents
from tests.cde_eval.tasks.tiny_tasks import (
    cluster_sets,
    clustered,
    labelled,
    pairs,
    search_data,
    split_of,
    summaries,
    tiny_task,
)
from tests.cde_eval.tiny_encoder import TinyEncoder

CORPUS = ["Bread flour and water", "the mill grinds", "Rivers rain fills the river", "ships sail"]
TRAIN = [f"learn {n} {'boat' if n % 2 else 'oven'}" for n in range(12)]
TEST = [f"exam {n} {'boat' if n % 2 else 'oven'}" for n in range(4)]
LEFT, RIGHT = ["left 1", "left 2", "left 3"], ["right 1", "right 2", "right 3"]


def lent(task: Any, protocol: Protocol = PAPER, subset: str = "default") -> list[str]:
    return lent_documents(task, "test", subset, protocol)


def search_task(kind: str = "Retrieval", **what: bool) -> Any:
    return tiny_task(kind, {"default": {"test": search_data(**what)}})


# The table at the head of lending.py, row by row

TABLE = {
    "Retrieval": (lambda: search_task(), CORPUS),
    "InstructionRetrieval": (
        lambda: search_task("InstructionRetrieval", instructions=True),
        CORPUS,
    ),
    "Reranking": (lambda: search_task("Reranking", candidates=True), CORPUS[:3]),
    "InstructionReranking": (
        lambda: search_task("InstructionReranking", candidates=True, instructions=True),
        CORPUS[:3],
    ),
    "Classification": (lambda: tiny_task("Classification", labelled()), TRAIN),
    "Multilabel": (lambda: tiny_task("Multilabel", labelled(labels=([0], [0, 1]))), TRAIN),
    "Regression": (
        lambda: tiny_task("Regression", labelled(column="value", labels=(0.5, 7.5))),
        TRAIN,
    ),
    "Clustering": (
        lambda: tiny_task("Clustering", clustered()),
        ["oven one", "boat two", "oven three"],
    ),
    "LegacyClustering": (
        lambda: tiny_task("LegacyClustering", cluster_sets()),
        ["oven one", "boat two", "oven three", "boat four", "boat five"],
    ),
    "PairClassification": (
        lambda: tiny_task("PairClassification", pairs(labels=[1, 0, 1])),
        LEFT + RIGHT,
    ),
    "STS": (
        lambda: tiny_task("STS", pairs(score=[0.0, 2.5, 5.0]), min_score=0, max_score=5),
        LEFT + RIGHT,
    ),
    "BitextMining": (lambda: tiny_task("BitextMining", pairs()), LEFT + RIGHT),
    "ZeroShot": (
        lambda: tiny_task("ZeroShot", labelled(), input_column_name="text"),
        TEST,
    ),
    "Summarization": (
        lambda: tiny_task("Summarization", summaries(), min_score=0, max_score=5),
        ["a long story of bread", "a long story of boats"],
    ),
}


@pytest.mark.parametrize("kind", TABLE)
def test_a_task_lends_what_the_table_promises_and_nothing_else(kind: str):
    make, documents = TABLE[kind]
    assert lent(make()) == documents


EMBEDS_WHAT_IT_LENDS = [
    "Clustering",
    "LegacyClustering",
    "PairClassification",
    "STS",
    "BitextMining",
]


@pytest.mark.parametrize("kind", EMBEDS_WHAT_IT_LENDS)
def test_what_is_lent_is_what_mteb_then_has_embedded(kind: str):
    make, documents = TABLE[kind]
    task = make()
    task.max_fraction_of_documents_to_embed = task.max_document_to_embed = None
    encoder = TinyEncoder(context_size=0)
    model = MtebEncoder(encoder)
    model.bind([task])
    mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    assert {text for batch in encoder.encoded for text in batch} == set(documents)


def test_titles_are_joined_as_mteb_joins_them():
    corpus = search_data()["corpus"]
    assert corpus_texts(corpus) == list(_retrieval_texts(corpus, PromptType.document)) == CORPUS


@pytest.mark.parametrize(
    ("row", "document"),
    [
        ({"title": "Bread", "text": "flour"}, "Bread flour"),
        ({"title": "", "text": " flour "}, "flour"),
        ({"title": None, "text": "flour"}, "flour"),  # mteb itself raises a TypeError
        ({"text": " flour "}, "flour"),
        ({"title": "Bread", "text": ""}, "Bread"),
        ({"title": "Bread", "text": "Bread flour"}, "Bread Bread flour"),
    ],
)
def test_a_title_is_joined_once_and_may_be_missing(row: dict[str, Any], document: str):
    filler = {"id": "x", "text": "other"} | ({"title": "T"} if "title" in row else {})
    corpus = Dataset.from_list([{"id": "1"} | row, filler])
    assert corpus_texts(corpus)[0] == document


def test_a_task_in_mtebs_first_format_lends_its_corpus_too():
    task = tiny_task("Retrieval", None)
    task.queries = {"test": {"q1": "never read"}}
    task.corpus = {"test": {"d1": {"title": "Bread", "text": "flour"}, "d2": "plain"}}
    task.relevant_docs = {"test": {"q1": {"d1": 1}}}
    assert lent(task) == ["Bread flour", "plain"]


# What the protocols lend

FIRST_ONLY = ["PairClassification", "STS", "BitextMining"]


@pytest.mark.parametrize("kind", FIRST_ONLY)
def test_under_mteb_pairs_lend_their_first_side(kind: str):
    assert lent(TABLE[kind][0](), MTEB) == LEFT
    assert lent(TABLE[kind][0](), AUTHOR) == LEFT + RIGHT


def test_under_mteb_clustering_of_sets_lends_the_first_set():
    assert lent(tiny_task("LegacyClustering", cluster_sets()), MTEB) == ["oven one", "boat two"]
    every_set = TABLE["LegacyClustering"][1]
    assert lent(tiny_task("LegacyClustering", cluster_sets()), AUTHOR) == every_set


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_clustering_without_sets_lends_all_sentences_under_every_protocol(protocol: Protocol):
    make, documents = TABLE["Clustering"]
    assert lent(make(), protocol) == documents


@pytest.mark.parametrize("kind", ["Classification", "Multilabel", "Regression"])
@pytest.mark.parametrize(
    ("protocol", "documents"), [(PAPER, TRAIN), (MTEB, TRAIN), (AUTHOR, TEST)], ids=lambda p: ""
)
def test_only_the_author_lends_the_texts_a_classifier_is_tested_on(
    kind: str, protocol: Protocol, documents: list[str]
):
    assert lent(TABLE[kind][0](), protocol) == documents


def test_train_and_test_of_a_classifier_are_read_in_one_context():
    task = TABLE["Classification"][0]()
    for protocol, split in ((PAPER, "train"), (MTEB, "train"), (AUTHOR, "test")):
        assert lending_split(task, "train", protocol) == split
        assert lending_split(task, "test", protocol) == split


def test_other_tasks_lend_the_split_that_is_evaluated():
    task = tiny_task("STS", split_of({}, validation={}), splits=("validation",))
    assert lending_split(task, "validation", AUTHOR) == "validation"


def test_under_author_a_classifier_without_a_test_split_lends_what_it_evaluates():
    data = labelled()
    data["validation"] = data.pop("test")
    task = tiny_task("Classification", data, splits=("validation",))
    assert lent_documents(task, "validation", "default", AUTHOR) == TEST


@pytest.mark.parametrize("kind", ["Reranking", "InstructionReranking"])
@pytest.mark.parametrize(
    ("protocol", "documents"),
    [
        (PAPER, CORPUS[:3]),  # d1 d2 d3 are candidates
        (AUTHOR, [CORPUS[0], CORPUS[2]]),  # d1 and d3 are right; d2 is judged, as wrong
        (MTEB, CORPUS),
    ],
    ids=["paper", "author", "mteb"],
)
def test_reranking_lends_candidates_right_answers_or_the_corpus(
    kind: str, protocol: Protocol, documents: list[str]
):
    assert lent(TABLE[kind][0](), protocol) == documents


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_search_task_lends_its_whole_corpus_under_every_protocol(protocol: Protocol):
    assert lent(search_task(), protocol) == CORPUS


# Subsets

IN_TWO_LANGUAGES = {
    "Retrieval": lambda language: {"test": search_data(language)},
    "Reranking": lambda language: {"test": search_data(language, candidates=True)},
    "Classification": labelled,
    "Multilabel": lambda language: labelled(language, labels=([0], [1])),
    "Clustering": clustered,
    "PairClassification": lambda language: pairs(language, labels=[1, 0, 1]),
    "STS": lambda language: pairs(language, score=[0.0, 1.0, 2.0]),
    "BitextMining": pairs,
}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("kind", IN_TWO_LANGUAGES)
def test_each_subset_lends_its_own_texts(kind: str, protocol: Protocol):
    build = IN_TWO_LANGUAGES[kind]
    both = {"deu": build("deutsch "), "eng": build("english ")}
    task = tiny_task(kind, both, subsets=("deu", "eng"))
    german, english = (lent(task, protocol, subset) for subset in ("deu", "eng"))
    assert german and not any("english" in text for text in german)
    assert english == [text.replace("deutsch", "english") for text in german]
    assert german != english


def test_a_bitext_subset_of_mtebs_own_mock_lends_both_languages():
    task = MockMultilingualBitextMiningTask()
    task.load_data()
    assert lent(task, PAPER, "eng") == [
        "This is a test sentence",
        "This is another test sentence",
        "dette er en test sætning",
        "denne her matche ikke den ovenstående",
    ]


@pytest.mark.parametrize("subset", ["eng_Latn", "fra_Latn", "eng_Latn-fra_Latn"])
def test_one_table_of_parallel_texts_lends_every_text_of_its_languages_once(subset: str):
    task = MockMultilingualParallelBitextMiningTask()  # pairs eng-fra and fra-eng
    task.load_data()
    columns = task.dataset["test"]
    both = {*columns["eng_Latn"], *columns["fra_Latn"]}
    documents = lent(task, PAPER, subset)
    assert set(documents) == both and len(documents) == 4


def test_one_table_of_parallel_texts_has_one_context_for_all_its_columns():
    # mteb names the column as the subset, so the two sides of a pair would read two draws.
    table = split_of({"deu": ["eins"], "eng": ["one"], "fra": ["un"], "ita": ["uno"]})
    task = tiny_task("BitextMining", table, subsets=("deu-eng", "fra-ita"), parallel_subsets=True)
    for column in ("deu", "eng", "fra"):
        assert lending_subset(task, column) == "parallel"
        assert lent(task, PAPER, column) == ["eins", "one", "un", "uno"]
    assert lent(task, MTEB, "fra") == ["eins"]


# Data in the shapes of MTEB v1, which some tasks still have

SENTENCES = {"sentence1": LEFT, "sentence2": RIGHT}


@pytest.mark.parametrize(
    "split",
    [
        Dataset.from_list([{**SENTENCES, "labels": [1, 0, 1]}]),  # SprintDuplicateQuestions
        [{**SENTENCES, "labels": [1, 0, 1]}],  # XNLI, after its dataset_transform
    ],
    ids=["a data set of one row", "a list of one row"],
)
def test_pairs_that_stand_in_one_row_are_lent_one_by_one(split: Any):
    task = tiny_task("PairClassification", {"test": split})
    assert lent(task) == LEFT + RIGHT
    assert lent(task, MTEB) == LEFT


def test_bitext_that_is_a_plain_dictionary_is_lent():
    # BUCC and WebFAQBitextMining, after their dataset_transform.
    rows = {**SENTENCES, "gold": [(0, 0), (1, 1), (2, 2)]}
    task = tiny_task("BitextMining", {"de-en": {"test": rows}}, subsets=("de-en",))
    assert lent(task, PAPER, "de-en") == LEFT + RIGHT


# What cannot be lent


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    task = tiny_task("Clustering", split_of({"texts": ["a"], "labels": ["b"]}))
    with pytest.raises(ContextError, match=r"no column 'sentences'; it has \['texts', 'labels'\]"):
        lent(task)


def test_a_type_of_task_without_a_rule_says_which_contexts_there_are():
    task = tiny_task("ImagePairs", split_of({"caption": ["a"]}))
    with pytest.raises(ContextError, match=r"no rule.*--context none, random or file:PATH"):
        lent(task)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("kind", TABLE)
def test_no_label_query_or_summary_is_ever_lent(kind: str, protocol: Protocol):
    secrets = {
        *("kitchen", "sea", "0", "1", "0.5", "7.5"),  # labels and values
        *("what is bread of?", "what fills rivers?", "Think of a kitchen."),  # queries
        *("people say bread", "of bread", "robot bread", "robot sea"),  # summaries
        *("d1", "d2", "d3", "d4", "q1", "q2"),  # ids
    }
    documents = lent(TABLE[kind][0](), protocol)
    assert all(isinstance(document, str) for document in documents)
    assert not secrets & set(documents)
