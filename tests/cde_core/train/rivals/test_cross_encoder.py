import json

import numpy as np
import pytest
import torch
import transformers

from cde_core.errors import ConfigError, ModelError
from cde_core.train.rivals import cross_encoder
from cde_core.train.rivals.cross_encoder import load_cross_encoder
from tests.cde_core.conftest import WORDS

LETTERS = WORDS[9:]


@pytest.fixture
def texts():
    """Forty queries and documents, many of them longer together than the model reads."""
    rng = np.random.default_rng(0)
    sides = ((5, 1), (40, 0))
    return [
        [" ".join(rng.choice(LETTERS, rng.integers(least, most))) for _ in range(40)]
        for most, least in sides
    ]


def test_equals_the_cross_encoder_of_sentence_transformers(classifier, texts, monkeypatch):
    from sentence_transformers import CrossEncoder

    monkeypatch.setattr(cross_encoder, "TOKENS_AT_ONCE", 100)  # four long pairs a batch
    folder = classifier(LETTERS)
    theirs = CrossEncoder(str(folder), device="cpu").predict(
        [*zip(*texts, strict=True)], activation_fn=torch.nn.Identity()
    )
    told = []
    ours = load_cross_encoder(str(folder), device="cpu").score(*texts, told.append)
    assert ours == pytest.approx(theirs, abs=1e-5) and np.ptp(ours) > 0.5
    assert sum(told) == 40 and len(told) > 5


def test_one_that_counts_positions_after_the_paddings_reads_as_many_as_it_can(classifier, texts):
    folder = classifier(LETTERS, kind="Roberta", positions=21)  # numbered from 1: 20 tokens
    model = transformers.RobertaForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    for query, document in zip(*texts, strict=True):
        ids = tokenizer([query], [document], truncation=True, max_length=20, return_tensors="pt")
        expected.append(model(**ids).logits.item())
    ours = load_cross_encoder(str(folder), device="cpu").score(*texts)
    assert ours == pytest.approx(expected, abs=1e-5)


def test_a_pair_that_comes_again_is_read_once(classifier):
    told = []
    encoder = load_cross_encoder(str(classifier(LETTERS)), device="cpu")
    scores = encoder.score(["cat", "dog", "cat"], ["the river", "rain", "the river"], told.append)
    assert scores[0] == scores[2] != scores[1] and sum(told) == 2


def test_prefixes_stand_before_the_texts(classifier):
    folder = str(classifier(LETTERS))
    bare = load_cross_encoder(folder, device="cpu").score(["moon cat"], ["star rain"])
    prefixed = load_cross_encoder(folder, device="cpu", prefixes=("moon ", "star "))
    assert prefixed.score(["cat"], ["rain"]) == bare


def test_those_that_read_otherwise_have_other_fingerprints(classifier):
    folder = str(classifier(LETTERS))
    same = [load_cross_encoder(folder, device="cpu") for _ in range(2)]
    same[1].score(["cat"], ["rain"])
    assert same[0].fingerprint == same[1].fingerprint
    others = [
        load_cross_encoder(folder, device="cpu", max_length=9),
        load_cross_encoder(folder, device="cpu", prefixes=("cat", "")),
    ]
    others.append(load_cross_encoder(folder, device="cpu"))
    with torch.no_grad():
        others[-1]._model.classifier.bias += 1e-6
    assert len({one.fingerprint for one in [same[0], *others]}) == 4


def test_several_labels_are_refused_in_one_line(classifier):
    folder = classifier(LETTERS, labels=3)
    with pytest.raises(ConfigError, match=r"gives 3 numbers for a pair.*one label") as raised:
        load_cross_encoder(str(folder))
    assert "\n" not in str(raised.value)


def test_two_labels_which_is_what_a_configuration_leaves_out_are_refused(classifier):
    with pytest.raises(ConfigError, match="gives 2 numbers"):
        load_cross_encoder(str(classifier(LETTERS, labels=2)))


def test_an_encoder_is_no_cross_encoder_however_it_is_named(classifier, tmp_path):
    folder = classifier(LETTERS)
    about = json.loads((folder / "config.json").read_text())
    transformers.BertModel.from_pretrained(folder).save_pretrained(folder)
    with pytest.raises(ModelError, match="is no cross-encoder: it is a BertModel"):
        load_cross_encoder(str(folder))
    (folder / "config.json").write_text(json.dumps(about))  # says that it is a classifier
    with pytest.raises(ModelError, match=r"lacks the weights classifier\.bias") as raised:
        load_cross_encoder(str(folder))
    assert "\n" not in str(raised.value)


def test_a_name_may_say_which_revision_of_the_hub(classifier, monkeypatch):
    folder, asked = classifier(LETTERS), []

    def fetched(name, **how):
        asked.append((name, how["revision"], "model-*.safetensors" in how["allow_patterns"]))
        return str(folder)

    monkeypatch.setattr("cde_core.model.hub.snapshot_download", fetched)
    for name in ("org/teacher", "org/teacher@v1.0"):
        assert len(load_cross_encoder(name, device="cpu").score(["cat"], ["rain"])) == 1
    assert asked == [("org/teacher", None, True), ("org/teacher", "v1.0", True)]


def test_what_is_not_there_or_damaged_is_said_in_one_line(classifier, monkeypatch, tmp_path):
    with pytest.raises(ModelError, match="There is no model folder"):
        load_cross_encoder(str(tmp_path / "nowhere"))
    folder = classifier(LETTERS)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be loaded as a cross-encoder") as raised:
        load_cross_encoder(str(folder))
    assert "\n" not in str(raised.value)
