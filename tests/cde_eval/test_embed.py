import numpy as np

from cde_eval.embed import each_once
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
