import numpy as np
import pytest

from cde_core.text import Purpose
from cde_eval.encoders import load_encoder
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.kept import kept
from cde_eval.probes.layers import Word, layer_reader
from cde_eval.probes.word_rows import Repeated, repeated_words
from tests.cde_eval.test_for_training import tiny_model
from tests.cde_eval.tiny_encoder import TinyEncoder

DOCUMENT = Purpose("Retrieval", "document", "Tiny")
TEXT = "the cat , bread river"


@pytest.fixture
def cde() -> Cde:
    return Cde(tiny_model(), "tests/tiny", "1", "float32")


def test_words_are_found_with_their_tokens_and_those_of_the_prefix_are_not(cde):
    reader = layer_reader(cde, DOCUMENT)
    # Tokens: search_document and ":" are the prefix's; the comma is no word.
    assert reader.words([TEXT]) == [
        [Word("the", 2, 3), Word("cat", 3, 4), Word("bread", 5, 6), Word("river", 6, 7)]
    ]


def test_a_word_of_several_pieces_has_the_mean_of_their_rows(minilm_folder):
    encoder = load_encoder(f"biencoder:{minilm_folder}")
    reader = layer_reader(kept(encoder), DOCUMENT)
    (words,) = reader.words(["Unfathomably good!"])
    assert [one.text for one in words] == ["unfathomably", "good"]
    long = words[0]
    assert long.end - long.first > 1 and long.first == 1  # behind [CLS]
    rows = reader.rows("Unfathomably good!", words)
    pieces = [Word("", i, i + 1) for i in range(long.first, long.end)]
    each = reader.rows("Unfathomably good!", pieces)
    assert rows.shape == (7, 2, 384)
    assert rows[:, 0] == pytest.approx(each.mean(axis=1), abs=1e-6)


def test_the_last_rows_of_a_biencoder_pool_to_its_vector(minilm_folder):
    encoder = load_encoder(f"biencoder:{minilm_folder}")
    reader = layer_reader(encoder, DOCUMENT)
    tokens = len(reader.tokens(["A cat sat."])[0].ids)
    last = reader.rows("A cat sat.", [Word("", 0, tokens)])[-1, 0]
    expected = encoder.encode(["A cat sat."], purpose=DOCUMENT)[0]
    assert last / np.linalg.norm(last) == pytest.approx(expected, abs=1e-5)


def test_context_reaches_the_layers_of_a_contextual_encoder_but_not_what_goes_in(cde):
    context = cde.read_context(["tax law court", "judge and law"], purpose=DOCUMENT)
    word = [Word("cat", 3, 4)]
    without, within = (layer_reader(cde, DOCUMENT, one).rows(TEXT, word) for one in (None, context))
    assert without.shape == (4, 1, 32)
    assert np.array_equal(without[0], within[0])
    assert not np.allclose(without[1:], within[1:], atol=1e-3)


def test_an_encoder_without_layers_has_no_reader():
    assert layer_reader(TinyEncoder(), DOCUMENT) is None


def test_repeated_words_are_those_of_enough_texts_once_per_text():
    a, b, c = Word("a", 1, 2), Word("b", 2, 3), Word("c", 3, 4)
    later = Word("a", 7, 8)
    words = [[a, b, later], [a, c], [b, a], [c]]
    rng = np.random.default_rng(0)
    found = repeated_words(words, Repeated(words=9, occurrences=9, fewest=3), rng)
    assert found == {"a": {0: a, 1: a, 2: a}}
    fewer = repeated_words(words, Repeated(words=9, occurrences=2, fewest=2), rng)
    assert sorted(fewer) == ["a", "b", "c"] and len(fewer["a"]) == 2
