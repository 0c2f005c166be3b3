import numpy as np
import pytest

from cde_eval.search import Ranking, best_of_candidates, best_of_scores, named, nearest
from cde_eval.vectors import Vectors


def vectors(count: int, seed: int, dim: int = 16) -> Vectors:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


def brute_force(queries: Vectors, documents: Vectors, k: int) -> np.ndarray:
    """Rows by falling inner product in float64, ties by row: the definition, written out."""
    exact = queries.astype(np.float64) @ documents.astype(np.float64).T
    return np.argsort(-exact, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("documents", [1, 7, 1000])
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_search_finds_what_sorting_every_product_finds(documents: int, k: int):
    left, right = vectors(9, 0), vectors(documents, 1)
    ranking = nearest(left, right, k)
    expected = brute_force(left, right, k)
    assert ranking.rows.shape == ranking.scores.shape == (9, min(k, documents))
    np.testing.assert_array_equal(ranking.rows, expected)
    np.testing.assert_allclose(
        ranking.scores, np.take_along_axis(left @ right.T, expected, axis=1), atol=1e-5
    )


def test_vectors_of_any_layout_and_float_are_searched():
    left, right = vectors(3, 0), vectors(20, 1)
    expected = nearest(left, right, 5)
    other = nearest(np.asfortranarray(left), right.astype(np.float64)[:, :], 5)
    np.testing.assert_array_equal(other.rows, expected.rows)


def test_each_query_ranks_only_its_own_candidates():
    left, right = vectors(3, 0), vectors(50, 1)
    candidates = [np.array([3, 40, 7, 12]), np.array([1]), np.array([9, 8, 49])]
    ranking = best_of_candidates(left, right, np.arange(len(right)), candidates, 10)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    for query, own in enumerate(candidates):
        expected = sorted(own.tolist(), key=lambda row, q=query: -exact[q, row])
        assert ranking.rows[query, : len(own)].tolist() == expected
        np.testing.assert_allclose(
            ranking.scores[query, : len(own)], exact[query, expected], atol=1e-5
        )


def test_places_that_no_candidate_fills_are_marked():
    lists = [np.array([4, 5]), np.array([7]), np.array([], np.int64)]
    ranking = best_of_candidates(vectors(3, 0), vectors(9, 1), np.arange(9), lists, 8)
    assert ranking.rows.shape == (3, 2)  # no wider than the longest list of candidates
    assert ranking.rows[1, 1] == -1 and ranking.rows[2].tolist() == [-1, -1]
    assert np.isneginf(ranking.scores[1, 1]) and np.isneginf(ranking.scores[2]).all()


def test_candidates_beyond_k_are_cut_to_the_best():
    left, right = vectors(2, 0), vectors(300, 1)
    everything = [np.arange(300)] * 2
    np.testing.assert_array_equal(
        best_of_candidates(left, right, np.arange(len(right)), everything, 20).rows,
        brute_force(left, right, 20),
    )


def test_documents_may_be_a_part_of_the_corpus_and_keep_their_rows_in_it():
    left, corpus = vectors(1, 0), vectors(9, 1)
    held = np.array([2, 5, 8])
    ranking = best_of_candidates(left, corpus[held], held, [np.array([8, 2])], 2)
    scores = {row: float(corpus[row] @ left[0]) for row in (2, 8)}
    assert ranking.rows[0].tolist() == sorted(scores, key=scores.__getitem__, reverse=True)
    assert ranking.scores[0] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-5)


def test_no_candidates_at_all_give_an_empty_ranking():
    empty = np.array([], np.int64)
    ranking = best_of_candidates(vectors(2, 0), vectors(3, 1), np.arange(3), [empty, empty], 5)
    assert ranking.rows.shape == (2, 0)
    assert named(ranking, ["q", "r"], ["a", "b", "c"]) == {"q": {}, "r": {}}


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_equal_scores_rank_by_row(k: int):
    # Scores 1 3 3 0 3: best first, and where they tie the smaller row first: 1 2 4 0 3.
    scores = np.array([1, 3, 3, 0, 3], np.float32)
    assert best_of_scores([scores], k, None).rows[0].tolist() == [1, 2, 4, 0, 3][:k]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_equal_scores_rank_by_row_in_whatever_order_the_candidates_come(k: int):
    scores = np.array([1, 3, 3, 0, 3], np.float32)
    candidates = [np.array([4, 3, 2, 1])]
    assert best_of_scores([scores], k, candidates).rows[0].tolist() == [1, 2, 4, 3][:k]


@pytest.mark.parametrize("k", [1, 13, 100, 200])
def test_score_vectors_rank_as_a_stable_sort_does(k: int):
    scores = np.random.default_rng(3).integers(0, 9, (5, 100)).astype(np.float32)  # many ties
    ranking = best_of_scores(iter(scores), k, None)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(ranking.rows, order)
    np.testing.assert_array_equal(ranking.scores, np.take_along_axis(scores, order, axis=1))


def test_rows_become_names_and_unfilled_places_vanish():
    ranking = Ranking(
        rows=np.array([[2, 0], [1, -1]]),
        scores=np.array([[0.75, 0.5], [0.25, -np.inf]], dtype=np.float32),
    )
    assert named(ranking, ["q1", "q2"], ["a", "b", "c"]) == {
        "q1": {"c": 0.75, "a": 0.5},
        "q2": {"b": 0.25},
    }


def test_names_are_plain_strings_and_scores_plain_floats():
    # trec_eval takes nothing else.
    ranking = nearest(vectors(1, 0), vectors(2, 1), 2)
    scores = named(ranking, ["q"], ["a", "b"])["q"]
    assert {type(name) for name in scores} == {str}
    assert {type(score) for score in scores.values()} == {float}
