import numpy as np
import pytest

from cde_core.errors import ModelError
from cde_core.text import Purpose
from cde_eval.encoders.registry import LoadOptions
from cde_eval.encoders.truncated import Truncated, load
from tests.cde_eval.tiny_encoder import DIM, TinyEncoder

TEXTS = ["red apple", "green pear", "blue plum", "red cherry", "a tax form", "income tax"]
DOCUMENT = Purpose("Retrieval", "document")


def test_the_first_dimensions_are_scaled_to_length_one_for_cosines():
    whole = TinyEncoder().encode(TEXTS, purpose=DOCUMENT)
    found = Truncated(TinyEncoder(), 5).encode(TEXTS, purpose=DOCUMENT)
    by_hand = whole[:, :5] / np.sqrt((whole[:, :5] ** 2).sum(axis=1, keepdims=True))
    assert found.shape == (6, 5) and found == pytest.approx(by_hand, abs=1e-6)


def test_they_stay_as_they_are_for_dot_products():
    whole = TinyEncoder().encode(TEXTS, purpose=DOCUMENT)
    found = Truncated(TinyEncoder(similarity="dot"), 5).encode(TEXTS, purpose=DOCUMENT)
    assert np.array_equal(found, whole[:, :5])


def test_what_the_whole_encoder_reads_is_read():
    base = TinyEncoder()
    encoder = Truncated(base, 5)
    assert encoder.context_size == base.context_size
    context = encoder.read_context(TEXTS, purpose=DOCUMENT)
    moved = base.encode(TEXTS, purpose=DOCUMENT, context=context)[:, :5]
    found = encoder.encode(TEXTS, purpose=DOCUMENT, context=context)
    assert found == pytest.approx(moved / np.linalg.norm(moved, axis=1, keepdims=True), abs=1e-6)


def test_its_results_are_filed_under_a_name_of_their_own():
    names = {Truncated(TinyEncoder(), kept).name for kept in (5, 6)}
    assert names == {"tests/tiny-first-5", "tests/tiny-first-6"}


def test_more_dimensions_than_there_are_is_refused():
    with pytest.raises(ModelError, match=f"has {DIM}; the most that works is {DIM}"):
        Truncated(TinyEncoder(), DIM + 1).encode(TEXTS, purpose=DOCUMENT)


@pytest.mark.parametrize("argument", ["", "minilm", "0:minilm", "-3:minilm", "minilm:64"])
def test_how_many_must_be_said(argument):
    with pytest.raises(ModelError, match="does not say how many dimensions are kept"):
        load(argument, LoadOptions())


def test_what_ranks_without_vectors_is_refused():
    with pytest.raises(ModelError, match="nothing can be truncated"):
        load("8:bm25", LoadOptions())
