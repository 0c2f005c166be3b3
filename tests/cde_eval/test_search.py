from pathlib import Path

import faiss
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cde_eval import search
from cde_eval.ranking import Ranking, merged, named
from cde_eval.search import best_of_candidates, best_of_scores, nearest
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


def with_ties(count: int, seed: int, dim: int = 4) -> Vectors:
    """Whole numbers, whose products are exact in float32 and mostly equal to many others."""
    return np.random.default_rng(seed).integers(-2, 3, (count, dim)).astype(np.float32)


def assert_same(ranking: Ranking, expected: Ranking) -> None:
    """The same bits, not nearly the same."""
    np.testing.assert_array_equal(ranking.rows, expected.rows)
    np.testing.assert_array_equal(ranking.scores.view(np.uint32), expected.scores.view(np.uint32))


@pytest.fixture(params=["as it is", "small tiles"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 16 rows and 7 queries a pass make of a small corpus what 4,096 do of a large one."""
    if request.param == "small tiles":
        for name, size in {
            "SMALLEST_TILE": 16,
            "LARGEST_TILE": 64,
            "SCORES_AT_ONCE": 128,
            "QUERIES_AT_ONCE": 7,
        }.items():
            monkeypatch.setattr(search, name, size)


@pytest.mark.parametrize("queries", [1, 19, 20, 50])
@pytest.mark.parametrize("k", [1, 10, 1000, 2999, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_equal_scores_come_by_row_wherever_the_cut_falls(tiles, queries: int, k: int, dtype: type):
    left, right = with_ties(queries, 0), with_ties(3000, 1)
    ranking = nearest(left, right.astype(dtype), k, rows_at_once=100)
    expected = brute_force(left, right, k)
    np.testing.assert_array_equal(ranking.rows, expected)
    np.testing.assert_array_equal(
        ranking.scores, np.take_along_axis(left @ right.T, expected, axis=1)
    )


@pytest.mark.parametrize("k", [1, 10, 2000, 2500])
def test_documents_that_are_all_equal_come_by_row(tiles, k: int):
    ranking = nearest(vectors(5, 0), np.tile(vectors(1, 1), (2000, 1)), k)
    np.testing.assert_array_equal(ranking.rows, np.tile(np.arange(min(k, 2000)), (5, 1)))


@pytest.mark.parametrize("order", [1, -1])
def test_scores_that_rise_or_fall_all_along_the_corpus_are_ranked(tiles, order: int):
    # The two extremes of what is looked at again: everything, and nothing.
    line = np.arange(2000, dtype=np.float32)[::order, None].copy()
    rows = nearest(np.ones((3, 1), np.float32), line, 30).rows
    assert rows.tolist() == [np.arange(2000)[::-order][:30].tolist()] * 3


@pytest.mark.parametrize("k", [1, 10, 1000])
@pytest.mark.parametrize("queries", [1, 20, 100])
def test_how_many_rows_are_read_at_once_changes_no_bit(queries: int, k: int):
    left, right = vectors(queries, 0, 96), vectors(40_000, 1, 96)
    expected = nearest(left, right, k)
    for rows_at_once in (1, 5_000, 20_000, 10**9):
        assert_same(nearest(left, right, k, rows_at_once=rows_at_once), expected)


def test_how_many_cores_there_are_changes_no_bit():
    left, right = vectors(77, 0, 96), vectors(40_000, 1, 96)
    expected = nearest(left, right, 50)
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert_same(nearest(left, right, 50), expected)
            assert {each["num_threads"] for each in threadpool_info()} == {threads}  # as before


def test_finds_what_an_index_of_faiss_finds():
    left, right = vectors(200, 0, 384), vectors(20_000, 1, 384)
    index = faiss.IndexFlatIP(384)
    index.add(right)
    scores, rows = index.search(left, 50)
    ranking = nearest(left, right, 50)
    np.testing.assert_array_equal(ranking.rows, rows)
    np.testing.assert_allclose(ranking.scores, scores, rtol=1e-5)


class Store:
    """Rows behind a door, and the most of them that were asked for at once."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.most = rows, 0

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice | np.ndarray, /) -> np.ndarray:
        some = np.array(self.rows[rows])
        self.most = max(self.most, len(some))
        return some


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_file_and_a_store_give_what_the_array_gives(tmp_path: Path, dtype: type):
    left, right = vectors(30, 0), vectors(40_000, 1).astype(dtype)
    np.save(tmp_path / "vectors.npy", right)
    expected = nearest(left, right.astype(np.float32), 100)
    on_disk = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert_same(nearest(left, on_disk, 100), expected)
    store = Store(right)
    assert_same(nearest(left, store, 100, rows_at_once=16_384), expected)
    assert store.most == 16_384


@pytest.mark.parametrize("device", ["cpu", "torch"])
def test_what_is_not_a_number_comes_last(monkeypatch, device: str):
    if device == "torch":
        monkeypatch.setattr(search, "_on_cpu", lambda some: search._with_torch(some, "cpu"))
    documents = np.array([[np.nan], [1], [-np.inf], [3], [np.nan], [-0.0], [0.0]], np.float32)
    one = np.ones((1, 1), np.float32)
    ranking = nearest(one, documents, 7)
    assert ranking.rows[0].tolist() == [3, 1, 5, 6, 0, 2, 4]
    assert np.isneginf(ranking.scores[0, 4:]).all()
    assert nearest(one, np.repeat(documents, 5000, axis=0), 1).rows.tolist() == [[15_000]]
    assert nearest(one, documents[[0, 0, 1]], 1).rows.tolist() == [[2]]


@pytest.mark.parametrize("queries", [1, 19, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("k", [1, 100, 5000])
def test_torch_finds_the_same_with_the_same_ties(tiles, monkeypatch, queries, dtype, k):
    left, right = with_ties(queries, 0), with_ties(3000, 1).astype(dtype)
    expected = nearest(left, right, k)
    monkeypatch.setattr(search, "_on_cpu", None)  # this device is reached through torch alone
    monkeypatch.setattr(search, "_with_torch", lambda some, _, w=search._with_torch: w(some, "cpu"))
    assert_same(nearest(left, right, k, device="elsewhere"), expected)


@pytest.mark.parametrize("k", [1, 100, 60_000])
def test_parts_of_a_corpus_merge_to_the_whole(k: int):
    left, right = vectors(9, 0), vectors(50_000, 1)
    right[20_000:30_000] = right[:10_000]  # ties between the parts
    starts = range(0, len(right), search.LARGEST_TILE)
    parts = []
    for start in starts:
        part = nearest(left, right[start : start + search.LARGEST_TILE], k)
        parts.append(Ranking(rows=part.rows + start, scores=part.scores))
    expected = nearest(left, right, k)
    assert_same(merged(parts, k), expected)
    assert_same(merged(iter(parts[::-1]), k), expected)


def test_merging_leaves_unfilled_places_behind_all_documents():
    # Even one of score -inf is a document.
    one = Ranking(np.array([[4, -1]]), np.array([[-np.inf, -np.inf]], np.float32))
    other = Ranking(np.array([[7, 2]]), np.array([[1, -2]], np.float32))
    both = merged([one, other], 10)
    assert both.rows.tolist() == [[7, 2, 4, -1]]
    assert both.scores.tolist() == [[1, -2, -np.inf, -np.inf]]
    assert merged([one, other], 2).rows.tolist() == [[7, 2]]


@pytest.mark.parametrize(
    ("queries", "documents", "k"), [(0, 5, 3), (3, 0, 3), (3, 5, 0), (0, 0, 0)]
)
def test_nothing_to_search_gives_an_empty_ranking(queries: int, documents: int, k: int):
    ranking = nearest(vectors(queries, 0), vectors(documents, 1), k)
    assert ranking.rows.shape == ranking.scores.shape == (queries, min(k, documents))


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


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_candidates_are_fetched_from_a_store_query_by_query(dtype: type):
    left, right = vectors(3, 0), vectors(50, 1).astype(dtype)
    lists = [np.array([3, 40, 7, 12]), np.array([], np.int64), np.array([9, 8])]
    store = Store(right)
    expected = best_of_candidates(left, right.astype(np.float32), np.arange(50), lists, 3)
    assert_same(best_of_candidates(left, store, np.arange(50), lists, 3), expected)
    assert store.most == 4


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


@pytest.mark.parametrize("k", [1, 3, 5])
def test_scores_that_are_not_numbers_come_last(k: int):
    scores = np.array([np.nan, 2, np.nan, 1, -3], np.float32)
    assert best_of_scores([scores], k, None).rows[0].tolist() == [1, 3, 4, 0, 2][:k]


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
