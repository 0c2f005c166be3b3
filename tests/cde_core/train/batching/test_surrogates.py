from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cde_core.errors import DataError, ModelError
from cde_core.train.batching import surrogates
from cde_core.train.batching.surrogates import embed_pairs, unit_rows
from cde_core.train.data.pairs import Pair, write_pairs

PAIRS = [
    Pair("a cat", "the cat and the dog", ("a dog", "a fish")),
    Pair("a cat", "a cat in the town"),
    Pair("tax law", "the law of the court", ("a judge",)),
    Pair("a boat", "sail and wind"),
    Pair("a boat", "sail and wind"),
]


class Counting:
    """Vectors from letters; remembers what it was asked, and can die."""

    def __init__(self, *, width=3, fingerprint="counting", dies_after=10**9):
        self.width, self.fingerprint, self.left, self.asked = width, fingerprint, dies_after, []

    def encode(self, texts, side):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        self.asked += [(text, side) for text in texts]
        raw = [[len(text), *map(ord, text)] for text in texts]
        width = self.width
        rows = np.array([(row * width)[:width] for row in raw], np.float32)
        return unit_rows(rows + (side == "query"))


@pytest.fixture
def pairs(tmp_path):
    return write_pairs(PAIRS, tmp_path / "pairs")


@pytest.fixture
def two_at_once(monkeypatch):
    monkeypatch.setattr(surrogates, "TEXTS_AT_ONCE", 2)


def arrays(vectors):
    return vectors.queries, vectors.documents, vectors.negatives


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))


def test_every_text_gets_the_vector_that_the_surrogate_gives_it(pairs, tmp_path, two_at_once):
    vectors = embed_pairs(pairs, Counting(), cache=tmp_path)
    direct = Counting()
    for found, texts, side in (
        (vectors.queries, [pair.query for pair in PAIRS], "query"),
        (vectors.documents, [pair.document for pair in PAIRS], "document"),
        (vectors.negatives, ["a dog", "a fish", "a judge"], "document"),
    ):
        assert np.array_equal(found, direct.encode(texts, side))
        assert found.dtype == np.float32
        assert isinstance(found.base, np.memmap)


def test_a_text_that_comes_again_is_embedded_once_per_side(pairs, tmp_path):
    surrogate = Counting()
    embed_pairs(pairs, surrogate, cache=tmp_path)
    assert len(surrogate.asked) == len(set(surrogate.asked)) == 3 + 4 + 3


def test_the_second_time_nothing_is_embedded_and_progress_hears_of_it(pairs, tmp_path):
    heard = []
    first = embed_pairs(pairs, Counting(), cache=tmp_path, progress=heard.append)
    assert sum(heard) == 5 + 5 + 3
    heard.clear()
    second = embed_pairs(pairs, Counting(dies_after=0), cache=tmp_path, progress=heard.append)
    assert sum(heard) == 13 and same(first, second) and first.digest == second.digest


def test_other_pairs_and_other_surrogates_lie_elsewhere(pairs, tmp_path):
    fewer = write_pairs(PAIRS[1:], tmp_path / "fewer")
    digests = {
        embed_pairs(*asked, cache=tmp_path).digest
        for asked in (
            (pairs, Counting()),
            (fewer, Counting()),
            (pairs, Counting(fingerprint="other")),
        )
    }
    assert len(digests) == 3
    assert {folder.name for folder in (tmp_path / "surrogates").iterdir()} == digests


@pytest.mark.parametrize("calls", range(8))
def test_a_killed_run_continues_and_ends_like_one_that_was_not(pairs, tmp_path, two_at_once, calls):
    whole, heard = Counting(), []
    expected = embed_pairs(pairs, whole, cache=tmp_path / "whole")
    first, second = Counting(dies_after=calls), Counting()
    with pytest.raises(KeyboardInterrupt):
        embed_pairs(pairs, first, cache=tmp_path)
    assert same(embed_pairs(pairs, second, cache=tmp_path, progress=heard.append), expected)
    assert first.asked + second.asked == whole.asked and sum(heard) == 13
    left = {file.name for file in (tmp_path / "surrogates" / expected.digest).iterdir()}
    assert left == {"queries.npy", "documents.npy", "negatives.npy", "lock"}


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def wrong_rows(file):
    np.save(file, np.zeros((2, 3), np.float32))


def wrong_width(file):
    np.save(file, np.zeros((len(np.load(file)), 7), np.float32))


def remove(file):
    file.unlink()


@pytest.mark.parametrize("name", ["queries", "documents", "negatives"])
@pytest.mark.parametrize("damage", [cut, wrong_rows, wrong_width, remove])
def test_a_damaged_file_is_remade(pairs, tmp_path, damage, name):
    expected = [array.copy() for array in arrays(embed_pairs(pairs, Counting(), cache=tmp_path))]
    (folder,) = (tmp_path / "surrogates").iterdir()
    damage(folder / f"{name}.npy")
    found = arrays(embed_pairs(pairs, Counting(), cache=tmp_path))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_pairs_without_negatives_have_none_of_the_right_width(tmp_path):
    pairs = write_pairs([Pair("a", "b")], tmp_path / "pairs")
    for _ in range(2):
        assert embed_pairs(pairs, Counting(), cache=tmp_path).negatives.shape == (0, 3)


def test_no_pairs_are_said(tmp_path):
    pairs = write_pairs([], tmp_path / "pairs")
    with pytest.raises(DataError, match="no pairs"):
        embed_pairs(pairs, Counting(), cache=tmp_path)


class Gives:
    fingerprint = "gives"

    def __init__(self, answer):
        self.answer = answer

    def encode(self, texts, side):
        return self.answer(len(texts), side)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda n, side: np.ones((n + 1, 2)), r"\(4, 2\) for 3 texts"),
        (lambda n, side: np.ones(n), r"\(3,\) for 3 texts"),
        (lambda n, side: np.full((n, 2), np.nan), "NaN or infinity for 3 texts, such as 'a cat'"),
        (lambda n, side: np.ones((n, 2 if side == "query" else 3)), "2 wide and its documents 3"),
    ],
)
def test_a_surrogate_that_gives_something_else_is_said(pairs, tmp_path, answer, said):
    with pytest.raises(ModelError, match=said):
        embed_pairs(pairs, Gives(answer), cache=tmp_path)


def test_all_who_want_the_same_vectors_at_once_wait_for_the_first(pairs, tmp_path):
    surrogates = [Counting() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda one: embed_pairs(pairs, one, cache=tmp_path), surrogates))
    assert sorted(len(one.asked) for one in surrogates) == [0, 0, 0, 0, 0, 3 + 4 + 3]
    assert all(same(one, found[0]) for one in found)


def test_rows_are_scaled_and_zeros_stay_zeros():
    assert unit_rows(np.array([[3, 4], [0, 0]])) == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
