import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beir.datasets.data_loader import GenericDataLoader
from beir.retrieval.evaluation import EvaluateRetrieval
from beir.retrieval.search.dense import DenseRetrievalExactSearch

from cde_core.errors import ContextError, TaskError
from cde_eval.beir_model import BeirModel
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import LoadOptions, load_encoder
from cde_eval.encoders.protocol import Encoder
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.tasks.from_beir import task_from_beir
from tests.cde_eval.tiny_encoder import TinyEncoder

WORDS = [f"word{number}" for number in range(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 documents of 8 to 20 words, and 15 queries of some of a document's words and others."""
    rng = random.Random(0)
    texts = [rng.choices(WORDS, k=rng.randint(8, 20)) for _ in range(60)]
    folder = tmp_path_factory.mktemp("beir")
    (folder / "qrels").mkdir()
    with (folder / "corpus.jsonl").open("w") as file:
        for number, text in enumerate(texts):
            row = {
                "_id": f"d{number}",
                "title": text[0] if number % 2 else "",
                "text": " ".join(text),
            }
            file.write(json.dumps(row) + "\n")
    judgements = ["query-id\tcorpus-id\tscore"]
    with (folder / "queries.jsonl").open("w") as file:
        for number in range(15):
            words = rng.sample(texts[number], 2) + rng.choices(WORDS, k=2)
            file.write(json.dumps({"_id": f"q{number}", "text": " ".join(words)}) + "\n")
            judgements += [f"q{number}\td{number}\t2", f"q{number}\td{number + 20}\t1"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(judgements) + "\n")
    return folder


def beir_scores(
    model: BeirModel, data: tuple[Any, Any, Any], **options: Any
) -> Mapping[str, float]:
    """nDCG and recall as beir has them."""
    corpus, queries, qrels = data
    search = DenseRetrievalExactSearch(model, show_progress_bar=False, **options)
    evaluation = EvaluateRetrieval(search, [1, 10, 100], model.score_function)
    results = evaluation.retrieve(corpus, queries)
    ndcg, _, recall, _ = evaluation.evaluate(qrels, results, evaluation.k_values)
    return {**ndcg, **recall}


def our_scores(
    encoder: Encoder, name: str, data: tuple[Any, Any, Any], policy: ContextPolicy | None
) -> Mapping[str, Any]:
    """The same through mteb."""
    task = task_from_beir(name, *data)
    task.load_data()
    model = MtebEncoder(encoder, policy)
    model.bind([task])
    scores = task.evaluate(model, "test", encode_kwargs={})["default"]
    assert isinstance(scores, Mapping)
    return scores


# Scores


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("context_size", [0, 8, 100, None])
def test_beir_gives_the_score_that_mteb_gives(folder: Path, context_size: Any, similarity: Any):
    data = GenericDataLoader(str(folder)).load("test")
    encoder = TinyEncoder(context_size=context_size, similarity=similarity)
    model = BeirModel(encoder, data[0], task_name="Words")
    theirs = beir_scores(model, data, corpus_chunk_size=25)
    ours = our_scores(encoder, "Words", data, ContextPolicy("corpus"))
    assert 0.1 < theirs["NDCG@10"] < 0.99
    assert theirs["NDCG@10"] == pytest.approx(ours["ndcg_at_10"], abs=2e-5)
    assert theirs["Recall@10"] == pytest.approx(ours["recall_at_10"], abs=2e-5)
    assert len(encoder.read) == (0 if context_size == 0 else 2)
    assert len(set(encoder.read)) == (0 if context_size == 0 else 1)  # both read the same documents


def test_without_a_corpus_the_context_is_the_null_context(folder: Path):
    data = GenericDataLoader(str(folder)).load("test")
    encoder = TinyEncoder(context_size=8)
    model = BeirModel(encoder, task_name="Words")
    ours = our_scores(encoder, "Words", data, ContextPolicy("none"))
    assert beir_scores(model, data)["NDCG@10"] == pytest.approx(ours["ndcg_at_10"], abs=2e-5)
    assert encoder.read == [] and model.context_record is None


@pytest.mark.slow
@pytest.mark.parametrize("model", ["minilm", "centred:minilm"])
def test_a_real_encoder_scores_the_same_too(model: str, minilm_folder: Path, shared_data: Path):
    corpus, all_queries, all_qrels = GenericDataLoader(
        str(shared_data / "beir" / "feedbackqa-who")
    ).load("test")
    queries = dict(list(all_queries.items())[:60])
    data = (corpus, queries, {query: all_qrels[query] for query in queries})
    encoder = load_encoder(model, LoadOptions())
    theirs = beir_scores(BeirModel(encoder, corpus, size=64, task_name="Who"), data)
    ours = our_scores(encoder, "Who", data, ContextPolicy("corpus", size=64))
    assert theirs["NDCG@10"] == pytest.approx(ours["ndcg_at_10"], abs=2e-5)


# The context


def test_the_context_is_read_before_anything_is_encoded():
    corpus = {f"d{number}": {"title": "T", "text": f"text {number}"} for number in range(20)}
    encoder = TinyEncoder(context_size=5)
    model = BeirModel(encoder, corpus, seed=7, task_name="Twenty")
    assert encoder.encoded == []
    (read,) = encoder.read
    assert len(set(read)) == 5 and set(read) <= {f"T text {number}" for number in range(20)}
    assert model.context_record is not None
    assert model.context_record["source"] == "corpus:Twenty/test"
    assert (model.context_record["pool"], model.context_record["seed"]) == (20, 7)


def test_texts_can_be_the_context_as_they_are():
    encoder = TinyEncoder(context_size=None)
    BeirModel(encoder, ["one", "two"])
    assert encoder.read == [("one", "two")]


def test_another_seed_task_or_size_reads_other_documents():
    texts = [f"text {number}" for number in range(200)]
    encoder = TinyEncoder(context_size=20)
    for options in ({}, {"seed": 1}, {"task_name": "A"}, {"split": "dev"}, {"size": 10}):
        BeirModel(encoder, texts, **options)  # type: ignore[arg-type]
    assert len(set(encoder.read)) == 5
    assert [len(read) for read in encoder.read] == [20, 20, 20, 20, 10]


def test_an_empty_corpus_is_an_error():
    with pytest.raises(ContextError, match="has no documents to read"):
        BeirModel(TinyEncoder(), {})


# What beir passes and expects


DOCUMENTS: list[dict[str, str | None]] = [
    {"title": "Bread", "text": "flour and water"},
    {"title": None, "text": " the mill grinds"},
    {"text": "rain"},
    {"title": "", "text": None},
]


def test_documents_come_as_a_list_of_documents_or_as_lists():
    encoder = TinyEncoder()
    model = BeirModel(encoder)
    one = model.encode_corpus(DOCUMENTS, batch_size=2, show_progress_bar=False)
    columns = {name: [row.get(name) for row in DOCUMENTS] for name in ("title", "text")}
    np.testing.assert_array_equal(one, model.encode_corpus(columns))
    texts = ("Bread flour and water", "the mill grinds", "rain", "")
    assert encoder.encoded == [texts, texts]
    untitled = model.encode_corpus({"text": ["the mill grinds"]})
    np.testing.assert_array_equal(untitled[0], one[1])


def test_each_side_has_its_prefix_and_a_text_is_encoded_once():
    encoder = TinyEncoder()
    model = BeirModel(encoder)
    model.encode_queries(["rain?", "rain?"])
    model.encode_corpus([{"title": "", "text": "rain"}])
    assert encoder.seen == ["search_query: rain?", "search_document: rain"]
    quora = TinyEncoder()
    BeirModel(quora, task_name="QuoraRetrieval").encode_corpus([{"text": "why?"}])
    assert quora.seen == ["search_query: why?"]


@pytest.mark.parametrize("as_tensor", [False, True])
def test_vectors_are_arrays_or_tensors_of_length_one(as_tensor: bool):
    model = BeirModel(TinyEncoder())
    for vectors in (
        model.encode_queries(["a b", "c"], convert_to_tensor=as_tensor),
        model.encode_corpus(DOCUMENTS, convert_to_tensor=as_tensor),
    ):
        assert isinstance(vectors, torch.Tensor if as_tensor else np.ndarray)
        np.testing.assert_allclose(np.linalg.norm(np.asarray(vectors), axis=1), 1, rtol=1e-6)


def test_a_biencoder_that_is_compared_by_products_keeps_its_lengths():
    model = BeirModel(TinyEncoder(context_size=0, similarity="dot"))
    lengths = np.linalg.norm(np.asarray(model.encode_queries(["a", "a b c d"])), axis=1)
    assert lengths[1] > lengths[0] > 1
    assert model.score_function == "dot"
    assert BeirModel(TinyEncoder()).score_function == "cos_sim"


def test_an_encoder_without_vectors_is_refused():
    with pytest.raises(TaskError, match="ranks documents without vectors"):
        BeirModel(load_encoder("bm25", LoadOptions()))


def test_an_encoder_that_does_no_retrieval_is_refused():
    with pytest.raises(TaskError, match="tests/tiny cannot do retrieval; it does Clustering, STS"):
        BeirModel(TinyEncoder(task_types=frozenset({"STS", "Clustering"})))
