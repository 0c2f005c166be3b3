import numpy as np
import pytest

from cde_eval.embed import VectorMemory, each_once
from cde_eval.vectors import Vectors


class Lengths:
    """Embeds a text as (its length, the code of its first letter), and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Vectors:
        self.asked.append(texts)
        rows = [[len(text), ord((text or "0")[0])] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 2)


def expected(*texts: str) -> list[list[int]]:
    return [[len(text), ord((text or "0")[0])] for text in texts]


def test_a_text_is_encoded_once_however_often_it_comes():
    encode = Lengths()
    vectors = each_once(["bb", "a", "bb", "ccc", "a"], encode)
    assert encode.asked == [["bb", "a", "ccc"]]
    assert vectors.tolist() == expected("bb", "a", "bb", "ccc", "a")


def test_texts_that_differ_are_encoded_in_their_order():
    encode = Lengths()
    assert each_once(["b", "aa", " b"], encode).tolist() == expected("b", "aa", " b")
    assert encode.asked == [["b", "aa", " b"]]


def test_no_texts_give_no_vectors():
    assert each_once([], Lengths()).shape == (0, 2)
    assert VectorMemory().recall([], "kind", Lengths()).shape == (0, 2)


def test_memory_encodes_only_what_it_has_not_seen():
    memory, encode = VectorMemory(), Lengths()
    memory.recall(["a", "bb"], "query", encode)
    vectors = memory.recall(["ccc", "bb", "a", "ccc"], "query", encode)
    assert encode.asked == [["a", "bb"], ["ccc"]]
    assert vectors.tolist() == expected("ccc", "bb", "a", "ccc")
    assert vectors.dtype == np.float32


def test_memory_gives_back_all_that_it_has_seen_without_encoding():
    memory, encode = VectorMemory(), Lengths()
    memory.recall(["a", "bb"], "query", encode)
    assert memory.recall(["bb", "a"], "query", encode).tolist() == expected("bb", "a")
    assert len(encode.asked) == 1


def test_the_same_text_of_another_kind_is_another_text():
    memory = VectorMemory()
    memory.recall(["a"], "query", lambda texts: np.zeros((1, 2), np.float32))
    vectors = memory.recall(["a"], "document", lambda texts: np.ones((1, 2), np.float32))
    assert vectors.tolist() == [[1, 1]]


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_a_full_memory_still_gives_the_right_vectors(limit: int):
    memory, encode = VectorMemory(limit=limit), Lengths()
    for texts in (["a", "bb"], ["bb", "ccc", "a"], ["ccc", "a", "dddd"]):
        assert memory.recall(texts, "k", encode).tolist() == expected(*texts)
    known = ["a", "bb", "ccc"][:limit]
    encode.asked.clear()
    memory.recall(["a", "bb", "ccc"], "k", encode)
    assert [text for texts in encode.asked for text in texts] == [
        text for text in ("a", "bb", "ccc") if text not in known
    ]


@pytest.mark.parametrize("seen_before", [[], ["a"], ["a", "bb"]])
def test_changing_what_was_returned_does_not_change_the_memory(seen_before: list[str]):
    memory, encode = VectorMemory(), Lengths()
    if seen_before:
        memory.recall(seen_before, "k", encode)
    memory.recall(["a", "bb"], "k", encode)[:] = -1
    assert memory.recall(["a", "bb"], "k", encode).tolist() == expected("a", "bb")


def test_texts_that_utf8_cannot_write_are_told_apart():
    memory, encode = VectorMemory(), Lengths()
    memory.recall(["?"], "k", encode)
    assert memory.recall(["\ud800"], "k", encode).tolist() == expected("\ud800")
