"""Surrogates are found by their names, and say what decides their vectors."""

import numpy as np
import pytest

from cde_core.errors import ConfigError, ModelError
from cde_core.model.checkpoint import save
from cde_core.train.batching import surrogate_kinds
from cde_core.train.batching.surrogate_kinds import ModelSurrogate, surrogate_named
from cde_core.train.batching.tfidf import TfidfSurrogate
from cde_core.train.data.pairs import Pair, write_pairs


@pytest.fixture
def pairs(tmp_path):
    made = [Pair("a cat", "the cat and the dog", ("a dog",)), Pair("tax law", "the law")]
    return write_pairs(made, tmp_path / "pairs")


def test_names_that_are_found(pairs, encoder, tmp_path, monkeypatch):
    assert isinstance(surrogate_named("tfidf", pairs=pairs), TfidfSurrogate)
    folder = save(encoder(null_context=True), tmp_path / "model")
    assert isinstance(surrogate_named(str(folder), pairs=pairs, device="cpu"), ModelSurrogate)
    asked = []
    monkeypatch.setattr(
        surrogate_kinds, "plugin", lambda *which: lambda *call: asked.append((*which, *call))
    )
    surrogate_named("encoder:minilm", pairs=pairs, device="cpu")
    assert asked == [("cde_core.surrogates", "encoder", "minilm", "cpu")]


def test_names_that_are_not(pairs, tmp_path):
    with pytest.raises(ConfigError, match="encodr"):
        surrogate_named("encodr:minilm", pairs=pairs)
    with pytest.raises(ModelError, match="no model folder"):
        surrogate_named(str(tmp_path / "nothing"), pairs=pairs)


def test_a_model_reads_no_prefix_and_no_context(encoder):
    model = encoder(null_context=True)
    texts = ["a cat", "the law of the court"]
    vectors = ModelSurrogate(model).encode(texts, "query")
    assert np.array_equal(vectors, encoder(null_context=True).encode(texts))
    assert not np.allclose(vectors, encoder(null_context=True).encode_queries(texts), atol=1e-3)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-6)


def test_a_model_that_needs_a_context_is_refused(encoder):
    with pytest.raises(ConfigError, match="tiny nomic cannot embed without a context"):
        ModelSurrogate(encoder())


def test_a_length_can_be_asked_of_models_alone(encoder, pairs, tmp_path):
    folder = str(save(encoder(null_context=True), tmp_path / "model"))
    short = surrogate_named(folder, pairs=pairs, device="cpu", max_length=4)
    one, other = short.encode(["the cat and dog", "the cat rain"], "document")
    assert np.array_equal(one, other)  # [CLS], two words, [SEP]
    for name in ("tfidf", "encoder:minilm"):
        with pytest.raises(ConfigError, match="surrogate_length is 4"):
            surrogate_named(name, pairs=pairs, max_length=4)


def test_long_texts_are_cut(encoder, monkeypatch):
    monkeypatch.setattr(surrogate_kinds, "LONGEST", 5)
    surrogate = ModelSurrogate(encoder(null_context=True, characters_per_token=0))
    one, other = surrogate.encode(["the cat and dog", "the cat and sun moon star"], "document")
    assert np.array_equal(one, other)  # [CLS], three words, [SEP]


def test_whatever_changes_a_models_vectors_changes_its_fingerprint(encoder):
    def fingerprint(family="nomic", **settings):
        return ModelSurrogate(encoder(family, null_context=True, **settings)).fingerprint

    changed = encoder(null_context=True)
    weight = next(reversed(dict(changed.model.named_parameters()).values()))
    weight.data += 1
    prints = [
        fingerprint(),
        fingerprint("bert"),
        fingerprint(max_length=16),
        fingerprint(rotary_on_context=True),
        ModelSurrogate(changed).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint() == fingerprint(logit_scale=1.0) == fingerprint(backbone_name="x")


def test_minilm_finds_what_means_the_same(minilm, pairs):
    surrogate = surrogate_named(minilm, pairs=pairs, device="cpu")
    cat, kitten, law = surrogate.encode(["A cat sleeps.", "A kitten naps.", "Tax law."], "query")
    assert cat @ kitten > 0.5 > cat @ law
