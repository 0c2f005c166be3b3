"""Encoders whose vectors stay on disk."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cde_core.errors import CdeWarning
from cde_core.text import Purpose
from cde_eval.encoders import kept as kept_module
from cde_eval.encoders.bm25 import Bm25
from cde_eval.encoders.centred import Centred
from cde_eval.encoders.kept import Kept, corpus_vectors, kept, unkept
from cde_eval.vector_store import StoredVectors
from tests.cde_eval.tiny_encoder import TinyEncoder

DOCUMENT = Purpose("Retrieval", "document")
QUERY = Purpose("Retrieval", "query")
TEXTS = ["apples and pears", "a train", "apples and pears", "tax"]


class Sayer(TinyEncoder):
    """Can say what its vectors depend on."""

    vouches = True

    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str] | None:
        if not self.vouches:
            return None
        about = {"role": purpose.role}
        return about if context is None else {**about, "context": context.tobytes().hex()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path))
    return tmp_path


def embedded(encoder: TinyEncoder) -> list[str]:
    return [text for call in encoder.encoded for text in call]


def test_vectors_are_the_encoders_own_and_made_once_even_by_another_process(cache):
    plain, first, second = TinyEncoder(), Sayer(), Sayer()
    vectors = Kept(first).encode(TEXTS, purpose=DOCUMENT)
    np.testing.assert_array_equal(vectors, plain.encode(TEXTS, purpose=DOCUMENT))
    assert embedded(first) == list(dict.fromkeys(TEXTS))
    again = Kept(second).encode(TEXTS[::-1], purpose=DOCUMENT)
    np.testing.assert_array_equal(again, vectors[::-1])
    assert embedded(second) == []


def test_each_role_and_each_context_has_vectors_of_its_own(cache):
    encoder = Kept(Sayer())
    contexts = [None, *(encoder.read_context([text], purpose=DOCUMENT) for text in TEXTS[:2])]
    plain = TinyEncoder()
    for _ in range(2):
        for purpose in (QUERY, DOCUMENT):
            for context in contexts:
                np.testing.assert_array_equal(
                    encoder.encode(TEXTS, purpose=purpose, context=context),
                    plain.encode(TEXTS, purpose=purpose, context=context),
                )
    assert len(embedded(encoder.inner)) == 3 * 2 * 3


def test_another_revision_or_setting_has_vectors_of_its_own(cache):
    for changes in ({}, {"revision": "2"}, {"settings": {"dtype": "bfloat16"}}, {"name": "a/b"}):
        encoder = Sayer(**changes)
        Kept(encoder).encode(["a"], purpose=DOCUMENT)
        assert embedded(encoder) == ["a"]


def test_what_an_encoder_does_not_vouch_for_is_not_kept(cache):
    encoder = Sayer()
    encoder.vouches = False
    for _ in range(2):
        Kept(encoder).encode(["a"], purpose=DOCUMENT)
    assert embedded(encoder) == ["a", "a"] and not (cache / "vectors").exists()


def test_encoders_that_cannot_say_or_rank_by_themselves_are_passed_through():
    for encoder in (TinyEncoder(), Bm25()):
        assert kept(encoder) is encoder and unkept(encoder) is encoder
    sayer = Sayer()
    assert unkept(kept(sayer)) is sayer and kept(kept(sayer)).inner is sayer


def test_a_cache_that_cannot_be_written_is_said_and_costs_no_result(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path / "file"))
    with pytest.warns(CdeWarning, match="cannot be kept.*CDE_EVAL_CACHE"):
        vectors = Kept(Sayer()).encode(["a", "b"], purpose=DOCUMENT)
    np.testing.assert_array_equal(vectors, TinyEncoder().encode(["a", "b"], purpose=DOCUMENT))


def test_a_corpus_is_in_memory_only_if_it_fits_easily(cache, monkeypatch):
    encoder, expected = Kept(Sayer()), TinyEncoder().encode(TEXTS, purpose=DOCUMENT)
    in_memory = corpus_vectors(encoder, TEXTS, DOCUMENT, None)
    monkeypatch.setattr(kept_module, "IN_MEMORY", 4 * 64 * 3)
    on_disk = corpus_vectors(encoder, TEXTS, DOCUMENT, None)
    assert isinstance(in_memory, np.ndarray) and isinstance(on_disk, StoredVectors)
    np.testing.assert_array_equal(in_memory, expected)
    np.testing.assert_array_equal(on_disk[:], expected)


def test_no_texts_have_no_vectors(cache):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Kept(Sayer()).encode([], purpose=DOCUMENT)) == 0


def test_a_centred_encoder_embeds_once_whatever_the_centre(cache):
    base = Sayer(context_size=0)
    centred = Centred(base, whiten=False)
    for documents in (TEXTS[:1], TEXTS[1:2], TEXTS):
        context = centred.read_context(documents, purpose=DOCUMENT)
        centred.encode(TEXTS, purpose=DOCUMENT, context=context)
    assert sorted(embedded(base)) == sorted(set(TEXTS))
