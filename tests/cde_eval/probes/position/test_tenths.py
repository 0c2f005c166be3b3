import math

import numpy as np
import pytest
import torch
from transformers import T5Model

import cde_core
from cde_core.errors import DataError, ModelError, TaskError
from cde_core.model.reshape import without_what_is_not_pooled
from cde_core.text import Purpose
from cde_eval.encoders.biencoder import load
from cde_eval.encoders.bm25 import Bm25
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.registry import LoadOptions
from cde_eval.probes.position.pooled import with_pooling
from cde_eval.probes.position.reading import reader_of, share_read, words
from cde_eval.probes.position.tenths import probe_tenths, tenths
from tests.cde_core.conftest import tokenizer  # noqa: F401 - a fixture
from tests.cde_core.t5_models import made, saved

from .counting_encoder import NOTHING_READ, CountingEncoder, numbered_passages

DATA = numbered_passages()
DOCUMENT = Purpose("Retrieval", "document")


def test_tenths_are_substrings_with_the_same_number_of_tokens():
    text = " ".join(f"w{number}" for number in range(25))
    parts = tenths(text, words(text))
    assert [len(part.split()) for part in parts] == [2, 3, 2, 3, 2, 3, 2, 3, 2, 3]
    assert " ".join(parts) == text


def test_a_bag_of_words_holds_every_tenth_alike(tmp_path):
    frame = probe_tenths("m", CountingEncoder(800), DATA, [NOTHING_READ], tmp_path)
    # 20 of 200 different words: 20 / (√200 · √20) = 1/√10
    assert frame["cosine"].tolist() == pytest.approx([1 / math.sqrt(10)] * 40, abs=1e-4)


def test_an_encoder_that_reads_fifty_words_holds_the_first_tenths_only(tmp_path):
    encoder = CountingEncoder(800, first=50)
    frame = probe_tenths("m", encoder, DATA, [NOTHING_READ], tmp_path)
    found = frame[frame["document"] == 2].sort_values("tenth")["cosine"].tolist()
    # 20, 20 and 10 of its 20 words are among the 50: 20/(√50·√20), and half of it
    whole = 20 / math.sqrt(50 * 20)
    assert found == pytest.approx([whole, whole, whole / 2, *[0] * 7], abs=1e-4)


def test_a_finished_run_embeds_nothing(tmp_path):
    probe_tenths("m", CountingEncoder(800), DATA, [NOTHING_READ], tmp_path)
    again = CountingEncoder(800, calls_left=0)
    assert len(probe_tenths("m", again, DATA, [NOTHING_READ], tmp_path)) == 40


def test_documents_too_short_for_ten_parts_are_said(tmp_path):
    short = type(DATA)("short", ["a few words"], ())
    with pytest.raises(DataError, match="No document of short"):
        probe_tenths("m", CountingEncoder(1), short, [NOTHING_READ], tmp_path)


def test_an_encoder_without_vectors_is_said(tmp_path):
    with pytest.raises(TaskError, match="bm25 ranks documents"):
        probe_tenths("bm25", Bm25(), DATA, [NOTHING_READ], tmp_path)


def test_how_much_is_read_is_a_share_of_the_passage():
    assert share_read([(0, 4), (5, 10)], 0, 8) == 1
    assert share_read([(0, 4), (5, 10)], 6, 14) == 0.5
    assert share_read([(0, 4)], 6, 14) == 0


def test_minilm_reads_its_256_tokens_and_pools_as_it_is_told(minilm_folder):
    encoder = load(str(minilm_folder), LoadOptions())
    text = "word " * 400
    spans = reader_of(encoder, DOCUMENT)(text)
    assert len(spans) == 254  # two of 256 are [CLS] and [SEP]
    assert spans[253] == (5 * 253, 5 * 253 + 4)

    asked = ["The first token stands for the text."]
    first = with_pooling(encoder, "cls").encode(asked, purpose=DOCUMENT)[0]
    features = encoder.model.preprocess(asked)
    with torch.inference_mode():
        rows = encoder.model[0](features)["token_embeddings"][0]
    by_hand = (rows[0] / rows[0].norm()).numpy()
    assert np.allclose(first, by_hand, atol=1e-5)
    mean = encoder.encode(asked, purpose=DOCUMENT)[0]  # the encoder itself is as it was
    whole = rows.mean(dim=0)
    assert np.allclose(mean, (whole / whole.norm()).numpy(), atol=1e-5)
    with pytest.raises(ModelError, match="cannot pool by 'nonsense'; it can by cls, max"):
        with_pooling(encoder, "nonsense")


def test_a_t5_of_ours_pools_by_its_decoder_where_it_has_one(tokenizer, tmp_path):  # noqa: F811
    theirs = made(T5Model, "1.0")
    folder = saved(theirs, tmp_path / "t5", tokenizer)
    encoder = Cde(cde_core.load(folder, device="cpu", cache=None), "local/t5", "1", "float32")
    found = with_pooling(encoder, "decoder").encode(["tax law"], purpose=DOCUMENT)
    ids = torch.tensor([tokenizer.encode("tax law").ids])
    with torch.inference_mode():
        rows = theirs(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).last_hidden_state
    assert np.allclose(found, rows[0].numpy(), atol=1e-5)
    only = without_what_is_not_pooled(encoder.model, "mean")
    with pytest.raises(ModelError, match="cannot pool by 'decoder'; it can by mean, cls, max"):
        with_pooling(Cde(only, "local/t5", "1", "float32"), "decoder")


def test_an_encoder_with_one_pooling_says_so():
    with pytest.raises(ModelError, match="has one pooling only"):
        with_pooling(CountingEncoder(1), "cls")
