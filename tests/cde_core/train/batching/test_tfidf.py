import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from cde_core.errors import DataError
from cde_core.train.batching import tfidf
from cde_core.train.batching.tfidf import TfidfSurrogate
from cde_core.train.data.pairs import Pair, write_pairs

TEXTS = [
    ("how to bake bread", "bread is baked in a hot oven, bread bread"),
    ("boat sails", "a sail moves the boat when wind blows"),
    ("tax law", "the court rules on tax law"),
    ("who is the judge", "the judge of the court"),
]


@pytest.fixture
def pairs(tmp_path):
    return write_pairs((Pair(*texts) for texts in TEXTS), tmp_path / "pairs")


def test_cosines_are_those_of_scikit_learns_word_weights(pairs):
    # SVD of the full rank turns the space and changes no angle in it.
    texts = [text for pair in TEXTS for text in pair]
    expected = TfidfVectorizer(sublinear_tf=True).fit_transform(texts).toarray()
    vectors = TfidfSurrogate(pairs).encode(texts, "query")
    assert vectors.dtype == np.float32 and vectors.shape[1] == len(texts)
    assert vectors @ vectors.T == pytest.approx(expected @ expected.T, abs=1e-5)


def test_rows_have_length_one_and_unknown_texts_are_zeros(pairs):
    vectors = TfidfSurrogate(pairs, dimensions=2).encode(["bread", "xyz", "", "the court"], "query")
    assert vectors.shape == (4, 2)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 0, 1])


def test_both_sides_are_read_alike_and_a_second_fit_is_the_same(pairs):
    one, other = TfidfSurrogate(pairs), TfidfSurrogate(pairs)
    texts = ["bread court", "boat"]
    assert np.array_equal(one.encode(texts, "query"), other.encode(texts, "document"))
    assert one.fingerprint == other.fingerprint


def test_other_pairs_or_settings_have_another_fingerprint(pairs, tmp_path):
    fewer = write_pairs((Pair(*texts) for texts in TEXTS[1:]), tmp_path / "fewer")
    surrogates = [
        TfidfSurrogate(pairs),
        TfidfSurrogate(fewer),
        TfidfSurrogate(pairs, dimensions=3),
        TfidfSurrogate(pairs, words=5),
        TfidfSurrogate(pairs, seed=1),
    ]
    assert len({one.fingerprint for one in surrogates}) == len(surrogates)


def test_it_is_fitted_on_a_sample_of_queries_and_documents(pairs, monkeypatch):
    monkeypatch.setattr(tfidf, "SAMPLE", 3)
    read = TfidfSurrogate(pairs)._sample()
    assert len(read) == 3 and set(read) < {text for pair in TEXTS for text in pair}
    drawn = {text for seed in range(20) for text in TfidfSurrogate(pairs, seed=seed)._sample()}
    assert drawn == {text for pair in TEXTS for text in pair}


def test_a_single_word_is_a_vector_of_one_number(tmp_path):
    pairs = write_pairs([Pair("tax", "tax tax"), Pair("?", "tax")], tmp_path / "pairs")
    vectors = TfidfSurrogate(pairs).encode(["tax", "the tax tax", "?"], "query")
    assert vectors.dtype == np.float32 and vectors.tolist() == [[1], [1], [0]]


def test_texts_without_words_are_said(tmp_path):
    pairs = write_pairs([Pair("?", "!"), Pair("a", "b")], tmp_path / "pairs")
    with pytest.raises(DataError, match="No text has a word"):
        TfidfSurrogate(pairs).encode(["a"], "query")
