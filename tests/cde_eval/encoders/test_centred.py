import numpy as np
import pytest

from cde_core.text import Purpose
from cde_eval.encoders.centred import Centred
from cde_eval.vectors import unit_length
from tests.cde_eval.tiny_encoder import TinyEncoder

TEXTS = ["red apple", "green pear", "blue plum", "red cherry", "a tax form", "income tax"]
DOCUMENT = Purpose("Retrieval", "document")


def test_the_mean_of_the_context_moves_to_the_origin():
    encoder = Centred(TinyEncoder(context_size=0), whiten=False)
    context = encoder.read_context(TEXTS, purpose=DOCUMENT)
    base = unit_length(TinyEncoder().encode(TEXTS, purpose=DOCUMENT))
    assert context.apply(base).mean(axis=0) == pytest.approx(0, abs=1e-6)
    by_hand = base - base.mean(axis=0)
    by_hand /= np.linalg.norm(by_hand, axis=1, keepdims=True)
    vectors = encoder.encode(TEXTS, purpose=DOCUMENT, context=context)
    assert vectors == pytest.approx(by_hand, abs=1e-5)


def test_without_context_it_is_the_base_encoder():
    base = unit_length(TinyEncoder().encode(TEXTS, purpose=DOCUMENT))
    encoder = Centred(TinyEncoder(context_size=0), whiten=False)
    assert np.array_equal(encoder.encode(TEXTS, purpose=DOCUMENT), base)


def test_whitening_undoes_the_covariance_that_ledoit_and_wolf_estimate():
    from sklearn.covariance import ledoit_wolf

    encoder = Centred(TinyEncoder(context_size=0), whiten=True)
    words = [f"{a} {b} {c}" for a in "abcdef" for b in "ghijkl" for c in "mnopqr"]
    context = encoder.read_context(words, purpose=DOCUMENT)
    base = unit_length(TinyEncoder().encode(words, purpose=DOCUMENT)).astype(np.float64)
    covariance = ledoit_wolf(base)[0]
    whitening = context.whitening.astype(np.float64)
    # Directions in which the context does not vary at all are held at a floor, not blown up.
    values, directions = np.linalg.eigh(covariance)
    varied = directions[:, values > values.max() * 1e-6]
    result = varied.T @ whitening @ covariance @ whitening @ varied
    assert result == pytest.approx(np.eye(varied.shape[1]), abs=1e-3)


def test_a_context_of_equal_documents_does_not_blow_up():
    encoder = Centred(TinyEncoder(context_size=0), whiten=True)
    context = encoder.read_context(["same"] * 5, purpose=DOCUMENT)
    assert np.isfinite(encoder.encode(TEXTS, purpose=DOCUMENT, context=context)).all()


def test_it_is_filed_under_a_name_of_its_own():
    base = TinyEncoder(context_size=0)
    names = {base.name, Centred(base, whiten=False).name, Centred(base, whiten=True).name}
    assert len(names) == 3
