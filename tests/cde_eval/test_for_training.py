import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import cde_core
from cde_core.errors import ConfigError, ModelError, TaskError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import reader_for
from cde_core.model.config import BiencoderConfig, ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.plugins import plugin
from cde_core.text import Purpose
from cde_core.train.data.pairs import Pair
from cde_core.train.data.sources import prepare_pairs
from cde_eval import for_training
from cde_eval.cli import main
from cde_eval.encoders import load_encoder, minilm
from cde_eval.for_training import EncoderSurrogate, documentation_pairs, evaluate, surrogate
from cde_eval.for_training import minilm_folder as folder_of_minilm
from cde_eval.results import read_records
from cde_eval.tasks import documentation
from cde_eval.tasks.documentation import DOMAINS, DocPair, Documentation
from tests.cde_core.conftest import BACKBONES, WORDS, shaken
from tests.cde_eval.test_bake import tokenizer
from tests.cde_eval.tiny_encoder import TinyEncoder
from tests.cde_eval.tiny_records import record

# The documentation


def of(domain: str, number: int) -> DocPair:
    place = f"{domain}.f{number}"
    return DocPair(place, domain, domain, f"f{number}", f"Ask {place}.", f"Answer {place}.")


TINY = Documentation(
    (of("numpy", 0), of("numpy", 1), of("scipy", 0), of("networkx", 0)), {"numpy": "2.0"}
)


@pytest.fixture
def tiny_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentation, "load_documentation", lambda: TINY)


@pytest.mark.usefixtures("tiny_documentation")
@pytest.mark.parametrize(
    ("argument", "domains"),
    [
        ("", ["numpy", "numpy", "scipy", "networkx"]),
        ("scipy", ["scipy"]),
        ("networkx, numpy", ["numpy", "numpy", "networkx"]),
        ("-numpy,scipy", ["networkx"]),
        ("-", ["numpy", "numpy", "scipy", "networkx"]),
        ("scipy,torch", ["scipy"]),  # torch is known, and not installed here
    ],
)
def test_packages_are_named_or_left_out(argument: str, domains: list[str]):
    assert [pair.domain for pair in documentation_pairs(argument).pairs] == domains


@pytest.mark.usefixtures("tiny_documentation")
def test_a_summary_asks_for_the_rest_of_its_documentation():
    (pair,) = documentation_pairs("scipy").pairs
    assert pair == Pair("Ask scipy.f0.", "Answer scipy.f0.", (), "scipy")


@pytest.mark.usefixtures("tiny_documentation")
def test_the_revision_is_that_of_the_pairs_that_are_trained_on():
    assert documentation_pairs("").revision == TINY.revision
    assert documentation_pairs("scipy").revision == documentation_pairs("scipy,torch").revision
    assert documentation_pairs("scipy").revision != documentation_pairs("numpy").revision


@pytest.mark.usefixtures("tiny_documentation")
def test_unknown_packages_and_none_are_refused():
    with pytest.raises(ConfigError, match=r"documentation of 'sklern'\. Did you mean 'sklearn'"):
        documentation_pairs("-numpy,sklern")
    with pytest.raises(ConfigError, match=r"docs:torch leaves no pairs; .*numpy, scipy, networkx"):
        documentation_pairs("torch")
    with pytest.raises(ConfigError, match="leaves no pairs"):
        documentation_pairs("-" + ",".join(DOMAINS))


@pytest.mark.usefixtures("tiny_documentation")
def test_the_trainer_finds_the_documentation_by_its_name(tmp_path: Path):
    assert plugin("cde_core.sources", "docs") is documentation_pairs
    pairs = prepare_pairs(["docs:-networkx"], cache=tmp_path, exclude_domains=["scipy"]).pairs
    assert pairs.domains == ("numpy",) and len(pairs) == 2


# The model


def test_minilm_is_a_model_folder_or_an_error_that_says_what_to_do(
    minilm_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(minilm, "_hub_snapshot", lambda: None)
    assert folder_of_minilm() == minilm_folder
    assert plugin("cde_core.models", "minilm") is folder_of_minilm
    monkeypatch.setattr(minilm, "find_folder", lambda: None)
    with pytest.raises(ModelError, match="install the extra `demo`"):
        folder_of_minilm()


# Surrogates


def test_a_surrogate_gives_the_encoders_own_vectors_at_length_one():
    encoder = TinyEncoder()
    texts = ["flour and water", "a ship on the sea"]
    for side in ("query", "document"):
        vectors = EncoderSurrogate(encoder).encode(texts, side)
        raw = encoder.encode(texts, purpose=Purpose("Retrieval", side))
        expected = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        np.testing.assert_allclose(vectors, expected, rtol=1e-6)
        assert vectors.dtype == np.float32
    assert not encoder.read  # it reads no context
    assert encoder.seen[:2] == [f"search_query: {text}" for text in texts]


def test_a_surrogate_of_no_texts_has_vectors_as_wide_as_others():
    made = EncoderSurrogate(TinyEncoder())
    assert made.encode([], "query").shape == (0, made.encode(["a"], "query").shape[1])


def test_surrogates_that_give_other_vectors_have_other_fingerprints():
    encoders = [
        TinyEncoder(),
        TinyEncoder(name="tests/other"),
        TinyEncoder(revision="2"),
        TinyEncoder(settings={"dtype": "bfloat16"}),
    ]
    assert len({EncoderSurrogate(encoder).fingerprint for encoder in encoders}) == 4
    same = EncoderSurrogate(TinyEncoder()).fingerprint
    assert same == EncoderSurrogate(encoders[0]).fingerprint


def test_a_surrogate_is_named_as_a_model_is(minilm_folder):
    made = surrogate(f"biencoder:{minilm_folder}", "cpu")
    texts = ["What is flour?", "Flour is ground wheat."]
    theirs = load_encoder(str(minilm_folder)).encode(texts, purpose=Purpose("Retrieval", "query"))
    np.testing.assert_allclose(made.encode(texts, "query"), theirs, atol=1e-6)


def test_an_encoder_without_vectors_is_no_surrogate():
    with pytest.raises(ConfigError, match="bm25 ranks documents and has no vectors") as error:
        surrogate("bm25", "cpu")
    assert "\n" not in str(error.value)


def test_a_surrogate_that_is_not_there_is_one_line():
    with pytest.raises(ModelError, match="Did you mean 'minilm'"):
        surrogate("minilms", "cpu")


# Evaluation between steps


@dataclass(frozen=True)
class Settings:
    tasks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    context: tuple[str, ...] = ("corpus",)


@pytest.fixture
def beir(tmp_path):
    """A folder with two tiny search tasks: words of the tiny tokenizer, three to a document."""
    for seed, name in enumerate(("TinyTown", "TinySea")):
        folder = tmp_path / "data" / name
        (folder / "qrels").mkdir(parents=True)
        words = np.random.default_rng(seed).permutation(WORDS[9:]).tolist()
        texts = [" ".join(words[i : i + 3]) for i in range(0, 36, 3)]
        corpus = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
        queries = [{"_id": f"q{i}", "text": text.split()[1]} for i, text in enumerate(texts)]
        for file, rows in (("corpus", corpus), ("queries", queries)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{file}.jsonl").write_text(lines)
        judged = "".join(f"q{i}\td{i}\t1\n" for i in range(len(texts)))
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return str(tmp_path / "data")


def tiny_model(kind="contextual", cache=None):
    backbone = BACKBONES["nomic"]
    torch.manual_seed(0)
    if kind == "biencoder":
        model = Biencoder(BiencoderConfig(backbone=backbone, max_length=32))
    else:
        model = ContextualEncoder(
            ContextualConfig(
                first=backbone,
                second=backbone,
                context_documents=6,
                soft_prompts=3,
                max_length=32,
                colon_id=4,
                null_context=True,
            )
        )
    reader = reader_for(model.config, tokenizer())
    return TextEncoder(shaken(model), reader, name="tiny", cache=cache)


def scores_of_the_command(model, beir, output, monkeypatch):
    """What `cde-eval mteb` says of a saved model: a score for every task and policy."""
    words = ["cde-eval", "mteb", "--model", str(model), "--data", beir, "--device", "cpu"]
    words += ["--context", "corpus", "none", "--output", str(output)]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    main()
    return {f"{one.task}/{one.policy}": one.scores[0].main for one in read_records(output)}


@pytest.mark.parametrize("kind", ["contextual", "biencoder"])
def test_a_model_in_training_scores_as_it_does_once_it_is_saved(kind, beir, tmp_path, monkeypatch):
    encoder = tiny_model(kind)
    encoder.model.train()
    scores = evaluate(encoder, Settings(data=(beir,), context=("corpus", "none")))
    saved = cde_core.save(encoder, tmp_path / "saved")
    expected = scores_of_the_command(saved, beir, tmp_path / "results", monkeypatch)
    assert len(expected) == (4 if kind == "contextual" else 2)
    for policy in {name.rpartition("/")[2] for name in expected}:
        of_tasks = [expected[f"{task}/{policy}"] for task in ("TinyTown", "TinySea")]
        expected[f"mean/{policy}"] = sum(of_tasks) / 2
    assert scores == pytest.approx(expected, abs=1e-12)
    assert len(set(scores.values())) > 1  # not a model that scores the same everywhere


def test_tasks_are_chosen_by_name(beir):
    scores = evaluate(tiny_model(), Settings(data=(beir,), tasks=("TinySea",)))
    assert list(scores) == ["TinySea/corpus", "mean/corpus"]
    assert scores["TinySea/corpus"] == scores["mean/corpus"]


def test_new_weights_are_scored_anew_and_nothing_is_left_on_disk(beir, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("CDE_EVAL_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    encoder, settings = tiny_model(cache=cache), Settings(data=(beir,))
    before = sorted(tmp_path.rglob("*"))
    first = evaluate(encoder, settings)
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.mul_(-0.7)
    again = evaluate(encoder, settings)
    assert sorted(tmp_path.rglob("*")) == before
    assert first != again == evaluate(encoder, settings)


def test_training_goes_on_as_if_nobody_had_evaluated(beir):
    encoder = tiny_model()
    model = encoder.model.train()
    model.first_stage.eval()
    model.first_stage.backbone.requires_grad_(False)

    def everything():
        return (
            [module.training for module in model.modules()],
            [p.requires_grad for p in model.parameters()],
            [p.detach().clone() for p in model.parameters()],
            [torch.get_rng_state(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
            [random.getstate(), np.random.get_state()[1].tolist()],  # noqa: NPY002
        )

    before = everything()
    evaluate(encoder, Settings(data=(beir,)))
    for one, other in zip(before, everything(), strict=True):
        for left, right in zip(one, other, strict=True):
            same = torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
            assert same
    ids = torch.tensor([[1, 10, 2]])
    context = model.prepare(model.read_context(ids))
    model(ids, None, context).sum().backward()
    assert model.backbone.words.weight.grad is not None


def test_modes_come_back_after_an_evaluation_that_failed(beir, monkeypatch):
    encoder = tiny_model()
    encoder.model.train()
    with pytest.raises(TaskError, match="no task 'TinyTow'"):
        evaluate(encoder, Settings(data=(beir,), tasks=("TinyTow",)))
    assert all(module.training for module in encoder.model.modules())


def test_a_task_that_cannot_be_evaluated_is_said_in_one_line(beir):
    encoder = tiny_model()
    with pytest.raises(TaskError, match="evaluation between steps failed: ") as error:
        evaluate(encoder, Settings(tasks=("NFCorpus",)))
    assert "\n" not in str(error.value)


def test_an_undefined_score_is_no_number_and_so_is_its_mean():
    outcomes = [record("A", 0.5), record("B", None), record("A", 0.25, policy="none")]
    scores = for_training._main_scores(outcomes)
    undefined = {"B/corpus": float("nan"), "mean/corpus": float("nan")}
    expected = {"A/corpus": 0.5, "A/none": 0.25, "mean/none": 0.25, **undefined}
    assert scores == pytest.approx(expected, nan_ok=True)


def test_a_score_of_several_splits_or_subsets_is_their_mean():
    several = record("A", scores={("test", "de"): 0.25, ("test", "fr"): 0.75})
    assert for_training._main_scores([several])["A/corpus"] == 0.5
