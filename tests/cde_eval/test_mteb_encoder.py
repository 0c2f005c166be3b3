import copy
from collections.abc import Iterator
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from datasets import Dataset
from mteb.abstasks import AbsTask
from mteb.mocks import ALL_MOCK_TASK_TEST_GRID

from cde_core.errors import ConfigError, ContextError, TaskError
from cde_core.text import Purpose
from cde_eval.contexts import ContextPolicy
from cde_eval.mteb_encoder import OUR_CHOICES, MtebEncoder
from cde_eval.protocols import AUTHOR, MTEB, PAPER
from cde_eval.task_contexts import Foreign
from cde_eval.tasks.local import local_task
from cde_eval.vectors import Vectors
from tests.cde_eval.tiny_encoder import TinyEncoder

CORPUS = ("red apples", "green pears", "blue plums", "ripe cherries", "sour lemons")
TITLES = ("fruit one", "fruit two", "", "fruit four", "fruit five")


@pytest.fixture(autouse=True)
def quiet_mteb(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    yield


def search_task(name: str = "Tiny", top_ranked: Any = None, kind: str = "Retrieval") -> AbsTask:
    data = {
        "corpus": Dataset.from_dict(
            {"id": [f"d{i}" for i in range(5)], "title": TITLES, "text": CORPUS}
        ),
        "queries": Dataset.from_dict({"id": ["q0", "q1"], "text": ["apples", "lemons"]}),
        "relevant_docs": {"q0": {"d0": 1}, "q1": {"d4": 1}},
        "top_ranked": top_ranked,
    }
    return local_task(
        name, kind, read=lambda: {"default": {"test": data}}, revision="1", description=name
    )


def evaluate(model: Any, task: AbsTask) -> Any:
    if isinstance(model, MtebEncoder):
        model.bind([task])
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return result.task_results[0].scores["test"][0]


class PlainMtebModel(mteb.models.abs_encoder.AbsEncoder):
    """The same vectors through mteb's own search, without any of our search or context code."""

    def __init__(self) -> None:
        self.tiny = TinyEncoder(context_size=0)
        self.mteb_model_meta = MtebEncoder(self.tiny).mteb_model_meta

    def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any = None, **_: Any) -> Any:
        role = "text" if prompt_type is None else prompt_type.value
        texts = [text for batch in inputs for text in batch["text"]]
        return self.tiny.encode(texts, purpose=Purpose(task_metadata.type, role))


# Every type of task


@pytest.mark.parametrize("protocol", [PAPER, AUTHOR, MTEB], ids=lambda protocol: protocol.name)
def test_passes_the_self_check_of_mteb_on_all_text_tasks_with_context(protocol):
    model = MtebEncoder(TinyEncoder(), ContextPolicy("corpus"), protocol=protocol)
    tasks = [task for task in ALL_MOCK_TASK_TEST_GRID if task.metadata.modalities == ["text"]]
    model.bind(tasks)
    outcome = mteb.mock_run(model)
    assert outcome.all_passed, outcome.to_markdown()
    passed = [name for name, status in outcome.items() if status is not None]
    assert len(passed) >= 28


def test_a_context_free_encoder_scores_as_it_does_in_mteb():
    ours = MtebEncoder(TinyEncoder(context_size=0))
    for make in (search_task, classification_task, sts_task):
        theirs = evaluate(PlainMtebModel(), make())
        assert evaluate(ours, make())["main_score"] == pytest.approx(theirs["main_score"], abs=1e-6)


# What reaches the model


def classification_task() -> AbsTask:
    words = ["good film", "bad film", "fine plot", "dull plot", "great cast", "weak cast"]
    train = Dataset.from_dict({"text": words * 4, "label": [1, 0, 1, 0, 1, 0] * 4})
    test = Dataset.from_dict({"text": ["a good plot", "a bad cast"], "label": [1, 0]})
    return local_task(
        "TinyReviews",
        "Classification",
        read=lambda: {"train": train, "test": test},
        revision="1",
        description="tiny",
    )


def sts_task() -> AbsTask:
    rows = {
        "sentence1": ["a cat sits", "a dog runs", "rain falls"],
        "sentence2": ["the cat sits", "the sun sets", "snow falls"],
        "score": [5.0, 0.0, 3.0],
    }
    return local_task(
        "TinySTS",
        "STS",
        read=lambda: {"test": Dataset.from_dict(rows)},
        revision="1",
        description="tiny",
        min_score=0,
        max_score=5,
    )


def clustering_task() -> AbsTask:
    rows = Dataset.from_dict(
        {"sentences": [f"{w} {i}" for i in range(8) for w in ("tea", "tax")], "labels": [0, 1] * 8}
    )
    return local_task(
        "TinyClusters",
        "Clustering",
        read=lambda: {"test": rows},
        revision="1",
        description="tiny",
        max_document_to_embed=None,
        max_fraction_of_documents_to_embed=None,
        max_documents_per_cluster=16,
    )


@pytest.mark.parametrize(
    ("make", "prefixes"),
    [
        (search_task, {"search_query: ", "search_document: "}),
        (classification_task, {"classification: "}),
        (sts_task, {"classification: "}),
        (clustering_task, {"clustering: "}),
    ],
)
def test_what_reaches_the_model_starts_with_the_prefix_of_the_table(make, prefixes):
    encoder = TinyEncoder()
    evaluate(MtebEncoder(encoder, ContextPolicy("corpus")), make())
    assert encoder.read, "the context was read"
    assert {text.partition(": ")[0] + ": " for text in encoder.seen} == prefixes


def test_queries_documents_and_context_of_a_search_carry_their_own_prefix():
    encoder = TinyEncoder(context_size=3)
    evaluate(MtebEncoder(encoder, ContextPolicy("corpus")), search_task())
    context, queries, documents = encoder.seen[:3], encoder.seen[3:5], encoder.seen[5:]
    assert all(text.startswith("search_document: ") for text in context)
    assert queries == ["search_query: apples", "search_query: lemons"]
    assert "search_document: fruit one red apples" in documents


def test_quora_asks_queries_on_both_sides():
    encoder = TinyEncoder()
    evaluate(MtebEncoder(encoder, ContextPolicy("corpus")), search_task("QuoraRetrieval"))
    assert {text.partition(": ")[0] for text in encoder.seen} == {"search_query"}


def test_reranking_carries_classification_or_by_option_the_prefixes_of_search():
    lists = {"q0": ["d0", "d1"], "q1": ["d3", "d4"]}
    for rerank_as_search, expected in (
        (False, {"classification"}),
        (True, {"search_query", "search_document"}),
    ):
        encoder = TinyEncoder()
        model = MtebEncoder(encoder, ContextPolicy("corpus"), rerank_as_search=rerank_as_search)
        evaluate(model, search_task("TinyRerank", lists, "Reranking"))
        assert {text.partition(": ")[0] for text in encoder.seen} == expected


def test_the_protocol_of_mteb_gives_every_context_the_prefix_of_a_search_document():
    encoder = TinyEncoder()
    model = MtebEncoder(encoder, ContextPolicy("corpus"), protocol=MTEB)
    evaluate(model, classification_task())
    (context,) = encoder.read
    assert all(text.startswith("search_document: ") for text in encoder.seen[: len(context)])


def test_titles_are_joined_once():
    # mteb's own cache of embeddings turns "TITLE body" into "TITLE TITLE body".
    encoder = TinyEncoder(context_size=0)
    evaluate(MtebEncoder(encoder), search_task())
    assert encoder.encoded[1] == (
        "fruit one red apples",
        "fruit two green pears",
        "blue plums",
        "fruit four ripe cherries",
        "fruit five sour lemons",
    )


# Context


def test_the_context_is_read_once_before_any_query_is_encoded():
    encoder = TinyEncoder(context_size=3)
    model = MtebEncoder(encoder, ContextPolicy("corpus"))
    evaluate(model, search_task())
    (documents,) = encoder.read
    assert len(documents) == 3
    assert set(documents) <= {f"{t} {c}".strip() for t, c in zip(TITLES, CORPUS, strict=True)}
    record = model.contexts.records()["test/default"]
    assert record["source"] == "corpus:Tiny/test"
    assert (record["documents"], record["pool"], record["with_replacement"]) == (3, 5, False)


def test_classification_reads_train_text_once_for_its_train_and_its_test_split():
    encoder = TinyEncoder(context_size=4)
    evaluate(MtebEncoder(encoder, ContextPolicy("corpus")), classification_task())
    (documents,) = encoder.read
    assert not any(text.startswith("a ") for text in documents), "test text starts with 'a '"


def test_another_context_gives_another_score_or_at_least_other_vectors():
    tax = Foreign(["tax law", "income tax", "tax office"], "file:tax.txt")
    task = search_task()
    task.load_data()
    loader = mteb._create_dataloaders.create_dataloader(
        task.dataset["default"]["test"]["queries"],
        task_metadata=task.metadata,
        prompt_type=mteb.types.PromptType.query,
    )
    vectors = {}
    for policy, foreign in (("corpus", None), ("random", tax), ("none", None)):
        model = MtebEncoder(TinyEncoder(), ContextPolicy(policy), foreign=foreign)
        model.bind([task])
        vectors[policy] = model.encode(
            loader,
            task_metadata=task.metadata,
            hf_split="test",
            hf_subset="default",
            prompt_type=mteb.types.PromptType.query,
        )
    assert not np.allclose(vectors["corpus"], vectors["random"])
    assert not np.allclose(vectors["corpus"], vectors["none"])
    lengths = np.linalg.norm(vectors["corpus"], axis=1)
    assert lengths == pytest.approx(1, abs=1e-6)


def test_the_order_of_tasks_does_not_change_their_contexts():
    def contexts(tasks: list[AbsTask]) -> dict[str, tuple[str, ...]]:
        encoder = TinyEncoder(context_size=2)
        model = MtebEncoder(encoder, ContextPolicy("corpus"))
        for task in tasks:
            evaluate(model, task)
        return dict(zip((task.metadata.name for task in tasks), encoder.read, strict=True))

    forth = contexts([search_task(), classification_task(), clustering_task()])
    back = contexts([clustering_task(), classification_task(), search_task()])
    assert forth == back


def test_draws_differ_and_each_is_repeatable():
    def drawn(draw: int) -> tuple[str, ...]:
        encoder = TinyEncoder(context_size=3)
        evaluate(MtebEncoder(encoder, ContextPolicy("corpus"), draw=draw), classification_task())
        return encoder.read[0]

    assert drawn(0) == drawn(0)
    assert len({drawn(draw) for draw in range(4)}) > 1


def test_an_unbound_task_outside_retrieval_says_what_to_do():
    model = MtebEncoder(TinyEncoder(), ContextPolicy("corpus"))
    with pytest.raises(ContextError, match="bind"):
        mteb.evaluate(model, sts_task(), cache=None, show_progress_bar=False)


def test_the_author_protocol_scales_vectors_for_clustering_only():
    for make, unit in ((clustering_task, True), (sts_task, False)):
        kept: list[Vectors] = []
        model = MtebEncoder(TinyEncoder(), ContextPolicy("corpus"), protocol=AUTHOR)
        encode = model.encode
        model.encode = lambda *a, encode=encode, kept=kept, **k: (
            kept.append(encode(*a, **k)) or kept[-1]
        )
        evaluate(model, make())
        lengths = np.linalg.norm(np.concatenate(kept), axis=1)
        assert np.allclose(lengths, 1) == unit


# Traps


class Bfloat16Encoder(TinyEncoder):
    """Computes in bfloat16, and hands over what numpy has for it."""

    def _vectors(self, texts: Any, purpose: Purpose) -> Vectors:
        exact = super()._vectors(texts, purpose)
        return torch.from_numpy(exact).to(torch.bfloat16).to(torch.float64).numpy()  # type: ignore[return-value]


def test_whatever_precision_a_model_computes_in_mteb_gets_float32():
    # bfloat16 tensors fail in five of mteb's task types, float64 doubles its memory.
    for make in (classification_task, clustering_task, sts_task, search_task):
        model = MtebEncoder(Bfloat16Encoder(context_size=0))
        encode, kinds = model.encode, set()

        def watched(*args: Any, encode: Any = encode, kinds: set[Any] = kinds, **kw: Any) -> Any:
            vectors = encode(*args, **kw)
            kinds.add(vectors.dtype)
            return vectors

        model.encode = watched  # type: ignore[method-assign]
        assert np.isfinite(evaluate(model, make())["main_score"])
        assert kinds <= {np.dtype("float32")}


def test_every_choice_is_in_the_name_that_results_are_filed_under():
    encoder = TinyEncoder()
    metas = [
        MtebEncoder(encoder, ContextPolicy("corpus", 4)).mteb_model_meta,
        MtebEncoder(encoder, ContextPolicy("corpus", 5)).mteb_model_meta,
        MtebEncoder(encoder, ContextPolicy("corpus", 4), draw=1).mteb_model_meta,
        MtebEncoder(encoder, ContextPolicy("corpus", 4), protocol=AUTHOR).mteb_model_meta,
        MtebEncoder(encoder, ContextPolicy("random", 4)).mteb_model_meta,
        MtebEncoder(encoder, ContextPolicy("none")).mteb_model_meta,
        MtebEncoder(TinyEncoder(settings={"dtype": "bfloat16"})).mteb_model_meta,
        MtebEncoder(encoder, rerank_as_search=True).mteb_model_meta,
    ]
    assert len({meta.experiment_name for meta in metas}) == len(metas)


@pytest.mark.parametrize("name", sorted(OUR_CHOICES))
def test_a_setting_called_as_a_choice_of_ours_is_refused(name):
    with pytest.raises(ConfigError, match=f"tests/tiny has settings called {name}, under which"):
        MtebEncoder(TinyEncoder(settings={name: "1"}))


def test_only_candidates_are_encoded_and_scores_equal_those_of_mteb():
    lists = {"q0": ["d1", "d0"], "q1": ["d4", "d1"]}
    encoder = TinyEncoder(context_size=0)
    ours = evaluate(MtebEncoder(encoder), search_task("TinyRerank", lists, "Reranking"))
    theirs = evaluate(PlainMtebModel(), search_task("TinyRerank", lists, "Reranking"))
    assert ours["main_score"] == pytest.approx(theirs["main_score"])
    assert ours["ndcg_at_10"] == pytest.approx(theirs["ndcg_at_10"])
    assert len(encoder.encoded[1]) == 3  # d0, d1 and d4 of five documents


def test_a_query_without_candidates_gets_an_empty_list():
    lists = {"q0": ["d1", "d0"], "q1": []}
    scores = evaluate(
        MtebEncoder(TinyEncoder(context_size=0)), search_task("TinyRerank", lists, "Reranking")
    )
    assert scores["recall_at_10"] == 0.5


def test_an_encoder_that_ranks_only_refuses_other_tasks():
    encoder = TinyEncoder(task_types=frozenset({"Retrieval"}))
    with pytest.raises(TaskError, match="cannot do TinySTS"):
        evaluate(MtebEncoder(encoder, ContextPolicy("corpus")), sts_task())


def test_a_used_task_object_would_change_the_score_so_fresh_ones_are_needed():
    # The trap itself, kept here so that it is noticed when mteb mends it.
    task = clustering_task()
    before = copy.deepcopy(task.rng_state.getstate())
    evaluate(MtebEncoder(TinyEncoder(context_size=0)), task)
    assert task.rng_state.getstate() != before
