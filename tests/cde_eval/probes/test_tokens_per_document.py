import json
from pathlib import Path

import numpy as np
import pytest
import torch

import cde_core
from cde_core.errors import ConfigError, ModelError
from cde_core.model.checkpoint import reader_for
from cde_core.model.config import ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.text import Purpose
from cde_eval.encoders.bm25 import Bm25
from cde_eval.encoders.kept import load_kept
from cde_eval.encoders.registry import load_encoder
from cde_eval.probes.tokens_per_document import cut_into, tokens_plan, usual_tokens
from cde_eval.results import RunRecord
from cde_eval.run import evaluate
from tests.cde_core.conftest import BACKBONES, shaken
from tests.cde_eval.probes.small_tasks import OPTIONS, SMALL_TASKS
from tests.cde_eval.test_bake import tokenizer
from tests.cde_eval.tiny_encoder import TinyEncoder

DOCUMENT = Purpose("Retrieval", "document")
DOCUMENTS = ["the cat and the dog", "tax law court", "bread oven fish"]
TEXTS = ["a king", "the cat and the court"]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A tiny contextual checkpoint that reads six documents, a vector each."""
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TQDM_DISABLE", "1")
    backbone = BACKBONES["nomic"]
    config = ContextualConfig(
        first=backbone,
        second=backbone,
        context_documents=6,
        soft_prompts=3,
        max_length=32,
        colon_id=4,
        null_context=True,
    )
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(ContextualEncoder(config)), reader_for(config, tokenizer()))
    load_encoder.cache_clear()
    load_kept.cache_clear()
    return cde_core.save(encoder, tmp_path / "tiny")


def vectors(encoder, documents=DOCUMENTS):
    context = encoder.read_context(documents, purpose=DOCUMENT)
    return encoder.encode(TEXTS, purpose=DOCUMENT, context=context)


def test_a_checkpoint_cut_otherwise_is_the_one_whose_config_says_so(folder):
    cut = cut_into("tiny", load_kept(str(folder), OPTIONS), 2)
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= {"tokens_per_document": 2, "context_documents": 3}
    (folder / "config.json").write_text(json.dumps(config))
    model = cde_core.load(folder, cache=None)
    expected = model.encode(
        TEXTS,
        purpose=DOCUMENT,
        context=model.read_context(DOCUMENTS, purpose=DOCUMENT),
        normalise=False,
    )
    assert cut.context_size == 3
    np.testing.assert_array_equal(vectors(cut), expected)


def test_the_checkpoint_itself_is_left_as_it_was(folder):
    whole = load_kept(str(folder), OPTIONS)
    before = vectors(whole)
    assert not np.allclose(vectors(cut_into("tiny", whole, 3)), before)
    assert whole.context_size == 6 and whole.settings == {}
    load_kept.cache_clear()
    load_encoder.cache_clear()
    np.testing.assert_array_equal(vectors(load_kept(str(folder), OPTIONS)), before)
    np.testing.assert_array_equal(vectors(cut_into("tiny", whole, 1)), before)


def test_records_say_how_documents_were_cut(folder, tmp_path):
    encoder = load_kept(str(folder), OPTIONS)
    for tokens in (1, 2):
        plan = tokens_plan("tiny", encoder, SMALL_TASKS[:1], tokens, draws=2, options=OPTIONS)
        records = list(evaluate(plan, tmp_path / "results"))
        assert all(isinstance(one, RunRecord) for one in records) and len(records) == 2
        assert {one.settings["tokens-per-document"] for one in records} == {str(tokens)}
        assert {one.context_size for one in records} == {6 // tokens}


def test_usual_numbers_fill_the_context(folder):
    network = load_kept(str(folder), OPTIONS).inner.model.model
    assert usual_tokens(network) == (1, 2)  # 4 and 8 do not divide 6


def test_a_number_that_does_not_fill_the_context_is_refused(folder):
    with pytest.raises(ConfigError, match=r"has 6 vectors, .* of 4 do not fill.* 1, 2, 3, 6"):
        cut_into("tiny", load_kept(str(folder), OPTIONS), 4)


@pytest.mark.parametrize("encoder", [Bm25(), TinyEncoder()])
def test_a_model_without_vectors_of_documents_is_refused_in_one_line(encoder):
    with pytest.raises(ModelError, match="nothing to cut; name a contextual transformer") as caught:
        cut_into("bm25", encoder, 2)
    assert "\n" not in str(caught.value)
