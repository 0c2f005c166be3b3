"""Baked folders give the vectors of the model that they were baked from, by `encode` alone."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers

import cde_core
from cde_core.errors import CdeError, ModelError
from cde_core.model.biencoder import Biencoder as CoreBiencoder
from cde_core.model.checkpoint import reader_for
from cde_core.model.config import BiencoderConfig, ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import DOCUMENT, QUERY, TextEncoder
from cde_core.text import Purpose
from cde_eval import bake as bake_
from cde_eval.bake import ONE_SIDED_TYPES, bake
from cde_eval.baked_module import load_baked
from cde_eval.cli import main
from cde_eval.contexts import draw_sample
from cde_eval.encoders import LoadOptions, load_encoder
from cde_eval.encoders.biencoder import Biencoder
from cde_eval.protocols import PAPER
from tests.cde_core.conftest import BACKBONES, WORDS, shaken

DOCUMENTS = [f"{a} {b}" for a in WORDS[9:17] for b in ("law court judge", "fish net", "oven")]
TEXTS = ["the cat and the dog", "tax law court", "night : star moon", "bread " * 60, "", "a king"]
SIZE = 6


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(DOCUMENTS), encoding="utf-8")
    return file


@pytest.fixture
def tiny(tmp_path):
    """Save a tiny contextual encoder that reads `SIZE` documents; return its folder."""

    def build(family="nomic", **settings):
        defaults = {"context_documents": SIZE, "soft_prompts": 3, "max_length": 32, "colon_id": 4}
        backbone = BACKBONES[family]
        config = ContextualConfig(first=backbone, second=backbone, **{**defaults, **settings})
        torch.manual_seed(0)
        encoder = TextEncoder(shaken(ContextualEncoder(config)), reader_for(config, tokenizer()))
        return str(cde_core.save(encoder, tmp_path / "tiny"))

    return build


def tokenizer():
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(":", "isolated")]
    )
    return words


def drawn(size=SIZE, seed=42):
    return draw_sample(
        DOCUMENTS, size, source="file:", key="bake", seed=seed, protocol=PAPER
    ).documents


@pytest.mark.parametrize("kind", ["centred", "whitened"])
def test_a_centred_model_loads_where_only_sentence_transformers_is(
    kind, minilm_folder, corpus, tmp_path
):
    model = f"{kind}:{minilm_folder}"
    folder = bake(model, corpus, tmp_path / "baked", size=20)
    code = """
import sys
sys.modules["cde_core"] = sys.modules["cde_eval"] = None  # importing them fails
import numpy, sentence_transformers
model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
numpy.save(sys.argv[2], model.encode(sys.argv[3:]))
"""
    subprocess.run(
        [sys.executable, "-c", code, folder, tmp_path / "vectors.npy", *TEXTS],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=True,
    )
    encoder = load_encoder(model)
    context = encoder.read_context(drawn(20), purpose=DOCUMENT)
    two_stage = encoder.encode(TEXTS, purpose=DOCUMENT, context=context)
    assert np.load(tmp_path / "vectors.npy") == pytest.approx(two_stage, abs=1e-6)
    assert np.abs(two_stage - encoder.encode(TEXTS, purpose=DOCUMENT)).max() > 0.01


@pytest.mark.parametrize(
    "settings",
    [
        {"context_attention": "joint"},
        {"context_attention": "prefix", "context_bias_init": 0.0},
        {"family": "modernbert", "rotary_on_context": True, "residual_head": True},
        {"family": "bert", "tokens_per_document": 2, "pool_instruction": False},
    ],
    ids=str,
)
def test_a_baked_contextual_encoder_equals_the_two_stage_one(settings, tiny, corpus, tmp_path):
    model = tiny(**settings)
    folder = bake(model, corpus, tmp_path / "baked")
    two_stage = cde_core.load(model, device="cpu")
    context = two_stage.read_context(drawn())
    documents = two_stage.encode_documents(TEXTS, context)
    queries = two_stage.encode_queries(TEXTS, context)
    assert np.abs(documents - queries).max() > 1e-3
    for baked in (
        SentenceTransformer(str(folder), trust_remote_code=True, device="cpu"),
        load_baked(folder, device="cpu"),
    ):
        assert baked.encode_document(TEXTS) == pytest.approx(documents, abs=1e-6)
        assert baked.encode_query(TEXTS) == pytest.approx(queries, abs=1e-6)
        assert baked.encode(TEXTS) == pytest.approx(documents, abs=1e-6)
        one_by_one = np.stack([baked.encode(text) for text in TEXTS])
        assert one_by_one == pytest.approx(documents, abs=1e-5)


def test_the_first_stage_and_its_cost_stay_behind(tiny, corpus, tmp_path):
    model = tiny()
    baked = load_baked(bake(model, corpus, tmp_path / "baked"), device="cpu")
    whole = cde_core.load(model, device="cpu").model
    first = sum(weight.numel() for weight in whole.first_stage.parameters())
    count = sum(weight.numel() for weight in baked.parameters())
    assert count == sum(weight.numel() for weight in whole.parameters()) - first
    assert not any(weight.requires_grad for weight in baked.parameters())


def test_the_model_that_was_baked_can_still_read_another_context(tiny, corpus, tmp_path):
    model = tiny()
    encoder = load_encoder(model)
    bake(model, corpus, tmp_path / "baked")
    assert load_encoder(model) is encoder  # remembered by the registry, so it must be whole
    assert encoder.read_context(DOCUMENTS[:2], purpose=DOCUMENT).documents == 2


def test_a_context_of_other_documents_gives_other_vectors(tiny, corpus, tmp_path):
    model = tiny()
    one = load_baked(bake(model, corpus, tmp_path / "one", seed=42), device="cpu")
    two = load_baked(bake(model, corpus, tmp_path / "two", seed=43), device="cpu")
    assert np.abs(one.encode(TEXTS) - two.encode(TEXTS)).max() > 1e-4


def test_the_harness_takes_the_folder_as_a_biencoder_with_the_right_prefixes(
    tiny, corpus, tmp_path
):
    model = tiny()
    encoder = load_encoder(str(bake(model, corpus, tmp_path / "baked")))
    assert isinstance(encoder, Biencoder) and encoder.context_size == 0
    two_stage = cde_core.load(model, device="cpu")
    context = two_stage.read_context(drawn())
    purposes = [
        DOCUMENT,
        QUERY,
        Purpose("Retrieval", "document", "QuoraRetrieval"),
        Purpose("Reranking", "query", "AskUbuntuDupQuestions"),
        Purpose("Reranking", "document", "AskUbuntuDupQuestions"),
        Purpose("InstructionRetrieval", "document", "Robust04"),
        *(Purpose(kind) for kind in ONE_SIDED_TYPES),
    ]
    for purpose in purposes:
        theirs = two_stage.encode(TEXTS, purpose=purpose, context=context)
        assert encoder.encode(TEXTS, purpose=purpose) == pytest.approx(theirs, abs=1e-6), purpose


def test_bfloat16_is_kept(tiny, corpus, tmp_path):
    model = tiny()
    half = bake(model, corpus, tmp_path / "half", options=LoadOptions(dtype="bfloat16"))
    baked = SentenceTransformer(str(half), trust_remote_code=True, device="cpu")
    assert {weight.dtype for weight in baked.parameters()} == {torch.bfloat16}
    two_stage = cde_core.load(model, device="cpu", dtype="bfloat16")
    theirs = two_stage.encode_documents(TEXTS, two_stage.read_context(drawn()))
    assert baked.encode(TEXTS).astype(np.float32) == pytest.approx(theirs, abs=0.02)
    widened = baked.to(torch.float32)  # the context must follow the weights
    assert widened.encode(TEXTS).dtype == np.float32


def test_a_shorter_limit_is_respected(tiny, corpus, tmp_path):
    baked = load_baked(bake(tiny(), corpus, tmp_path / "baked"), device="cpu")
    baked.max_seq_length = 8
    assert baked.preprocess(["cat " * 30])["input_ids"].shape == (1, 8)


def test_the_folder_says_where_its_context_came_from_and_how_to_load_it(tiny, corpus, tmp_path):
    model = tiny()
    folder = bake(model, corpus, tmp_path / "baked", size=5, seed=7)
    about = json.loads((folder / "context.json").read_text())
    assert about["model"] == model and about["revision"] == load_encoder(model).revision
    assert (about["source"], about["seed"], about["size"]) == (f"file:{corpus}", 7, 5)
    sample = draw_sample(DOCUMENTS, 5, source="", key="bake", seed=7, protocol=PAPER)
    assert about["sha256"] == sample.record()["sha256"]
    readme = (folder / "README.md").read_text()
    assert 'SentenceTransformer("path/to/baked", trust_remote_code=True)' in readme


def test_a_folder_that_holds_something_is_refused_before_any_work(corpus, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(CdeError, match="full exists already; remove it"):
        bake("there is no such model", corpus, tmp_path / "full")
    assert (tmp_path / "full" / "thesis.tex").exists()


def test_an_empty_folder_is_filled(tiny, corpus, tmp_path):
    (tmp_path / "empty").mkdir()
    assert (bake(tiny(), corpus, tmp_path / "empty") / "modules.json").exists()


def test_nothing_is_left_when_writing_fails(tiny, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(bake_, "_readme", lambda *_: 1 / 0)
    model = tiny()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError):
        bake(model, corpus, tmp_path / "baked")
    assert sorted(tmp_path.iterdir()) == before


def test_models_without_a_context_to_carry_are_refused(minilm_folder, corpus, tmp_path):
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    plain = TextEncoder(shaken(CoreBiencoder(config)), reader_for(config, tokenizer()))
    cde_core.save(plain, tmp_path / "plain")
    for model in (str(minilm_folder), str(tmp_path / "plain")):
        with pytest.raises(ModelError, match="reads no context, so there is nothing to bake"):
            bake(model, corpus, tmp_path / "baked")
    with pytest.raises(ModelError, match="bm25s/lucene cannot be baked"):
        bake("bm25", corpus, tmp_path / "baked")
    assert not (tmp_path / "baked").exists()


def test_the_command_writes_the_folder_and_says_where(tiny, corpus, tmp_path, monkeypatch, capsys):
    out = tmp_path / "baked"
    arguments = ["--model", tiny(), "--corpus", corpus, "--size", 5, "--out", out]
    monkeypatch.setattr(sys, "argv", ["cde-eval", "bake", *map(str, arguments)])
    main()
    assert str(out) in capsys.readouterr().out and (out / "context.json").exists()
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2 and "exists already" in capsys.readouterr().err


def test_a_context_of_no_documents_cannot_be_drawn(corpus, tmp_path):
    with pytest.raises(CdeError, match="context of 0 documents"):
        bake("centred:minilm", corpus, tmp_path / "baked", size=0)


def test_a_corpus_smaller_than_the_context_is_read_whole_and_once(minilm_folder, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("tea\ncoffee\nmilk\n")
    out = bake(f"centred:biencoder:{minilm_folder}", corpus, tmp_path / "baked")
    about = json.loads((out / "context.json").read_text())
    assert (about["size"], about["pool"], about["with_replacement"]) == (3, 3, False)
