import numpy as np
import pytest

from cde_core.train.rivals import exact_search
from cde_core.train.rivals.exact_search import highest, scores_of_own


def rows(count, width=7, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, width))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def sorted_by_hand(queries, documents, k, among=None):
    """Every score in float64; the best first, and the lower number where two are equal."""
    found = []
    for query in queries:
        scores = [
            (-float(np.dot(query.astype(float), documents[i].astype(float))), i)
            for i in (range(len(documents)) if among is None else among)
        ]
        found.append([number for _, number in sorted(scores)[:k]])
    return np.array(found)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(exact_search, "DOCUMENTS_AT_ONCE", 13)
    monkeypatch.setattr(exact_search, "PRODUCTS_AT_ONCE", 500)
    monkeypatch.setattr(exact_search, "MORE", 4)


@pytest.mark.parametrize("k", [1, 5, 200])
def test_finds_what_a_sort_of_all_scores_finds(small_blocks, k):
    queries, documents = rows(40), rows(200, seed=1)
    numbers, scores = highest(queries, documents, k)
    assert np.array_equal(numbers, sorted_by_hand(queries, documents, k))
    assert scores == pytest.approx(np.take_along_axis(queries @ documents.T, numbers, 1), abs=1e-6)


def test_only_candidates_count(small_blocks):
    queries, documents, among = rows(9), rows(200, seed=1), np.arange(3, 200, 7)
    numbers, _ = highest(queries, documents, 6, among=among)
    assert np.array_equal(numbers, sorted_by_hand(queries, documents, 6, among))
    assert highest(queries, documents, 6, among=among[:2])[0].shape == (9, 2)
    assert highest(queries, documents, 6, among=among[:0])[0].shape == (9, 0)


def test_copies_of_a_vector_come_in_their_order_however_many_there_are(small_blocks):
    # Thirty copies of the best vector, which is more than are proposed beyond k.
    queries, documents = rows(3), rows(100, seed=1)
    copies = np.arange(5, 95, 3)
    documents[copies] = queries[0]
    assert np.array_equal(highest(queries, documents, 8)[0][0], copies[:8])


def test_a_query_of_zeros_ties_with_everything(small_blocks):
    numbers, scores = highest(np.zeros((1, 7), np.float32), rows(50), 4)
    assert numbers.tolist() == [[0, 1, 2, 3]] and not scores.any()


@pytest.mark.parametrize("width", [7, 384])
def test_bits_do_not_depend_on_what_is_asked_together_or_read_together(width, monkeypatch):
    queries, documents = rows(70, width), rows(300, width, seed=1)
    documents[::2] = documents[1::2]  # ties everywhere
    whole, scores = highest(queries, documents, 9)
    monkeypatch.setattr(exact_search, "DOCUMENTS_AT_ONCE", 31)
    monkeypatch.setattr(exact_search, "PRODUCTS_AT_ONCE", 10_000)
    for size in (1, 19, 33):
        for start in range(0, 70, size):
            part = slice(start, start + size)
            numbers, found = highest(queries[part], documents, 9)
            assert np.array_equal(numbers, whole[part]) and np.array_equal(found, scores[part])
    own = scores_of_own(queries, documents[whole[:, 0]])
    assert np.array_equal(own, scores[:, 0])
