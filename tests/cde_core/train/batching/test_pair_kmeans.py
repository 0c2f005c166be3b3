"""The bound problem on 2N points against k-means on N midpoints, by trying every partition."""

import itertools

import numpy as np
import pytest

from cde_core.errors import ConfigError
from cde_core.train.batching.pair_kmeans import KMeans, Sides, cluster_domain, reduced
from cde_core.train.batching.surrogates import PairVectors, unit_rows

SETTINGS = {"size": 4, "dimensions": 0, "iterations": 20, "attempts": 20, "seed": 0}


def vectors_of(queries, documents):
    queries, documents = (np.asarray(side, np.float32) for side in (queries, documents))
    return PairVectors(queries, documents, np.zeros((0, queries.shape[1]), np.float32), "digest")


def random_pairs(pairs, width=3, *, seed=0):
    rng = np.random.default_rng(seed)
    return (unit_rows(rng.standard_normal((pairs, width))) for _ in range(2))


def partitions(pairs, clusters):
    """Every way to number pairs so that each cluster has some."""
    for numbers in itertools.product(range(clusters), repeat=pairs):
        if len(set(numbers)) == clusters:
            yield np.array(numbers)


def squares(points, of):
    """Summed squared distances to the mean of each cluster, straight from the definition."""
    return sum(np.square(points[of == c] - points[of == c].mean(0)).sum() for c in set(of.tolist()))


def both_points(queries, documents):
    return np.vstack((np.hstack((queries, documents)), np.hstack((documents, queries))))


@pytest.mark.parametrize("clusters", [2, 3])
def test_the_best_partition_of_pairs_is_the_best_of_midpoints(clusters):
    queries, documents = (side.astype(np.float64) for side in random_pairs(7))
    midpoints, points = (queries + documents) / 2, both_points(queries, documents)
    bound, of_midpoints = {}, {}
    for of in partitions(7, clusters):
        bound[tuple(of)] = squares(points, np.tile(of, 2))
        of_midpoints[tuple(of)] = squares(midpoints, of)
    constant = np.square(queries - documents).sum()
    assert [4 * value + constant for value in of_midpoints.values()] == pytest.approx(
        list(bound.values())
    )
    assert min(bound, key=bound.get) == min(of_midpoints, key=of_midpoints.get)


def test_kmeans_finds_the_best_partition_of_pairs():
    queries, documents = random_pairs(7)
    points = both_points(queries, documents)
    best = min(squares(points, np.tile(of, 2)) for of in partitions(7, 2))
    sides = Sides(vectors_of(queries, documents))
    of, _, found = cluster_domain(sides, np.arange(7), KMeans(points="paired", **SETTINGS))
    assert found == pytest.approx(best, rel=1e-5)
    assert squares(points, np.tile(of, 2)) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("points", ["paired", "free"])
def test_centroids_and_squares_are_those_of_the_clusters(points):
    queries, documents = random_pairs(50)
    sides = Sides(vectors_of(queries, documents))
    rows = np.arange(3, 43)
    of, means, found = cluster_domain(sides, rows, KMeans(points=points, **SETTINGS))
    queries, documents = queries[rows], documents[rows]
    assert found == pytest.approx(
        squares(both_points(queries, documents), np.tile(of, 2)), rel=1e-5
    )
    for cluster, mean in enumerate(means):
        midpoints = (queries + documents)[of == cluster] / 2
        assert mean == pytest.approx(midpoints.mean(0), abs=1e-6)


def test_free_points_are_what_faiss_itself_finds_on_them():
    import faiss

    queries, documents = random_pairs(60, 8)
    of, *_ = cluster_domain(
        Sides(vectors_of(queries, documents)), np.arange(60), KMeans(points="free", **SETTINGS)
    )
    points = both_points(queries, documents)
    kmeans = faiss.Kmeans(
        16, 15, niter=20, nredo=20, seed=0, spherical=True, min_points_per_centroid=1
    )
    kmeans.train(points)
    nearest = (points[:60] @ kmeans.centroids.T).argmax(1)
    assert np.array_equal(of, np.unique(nearest, return_inverse=True)[1])


def test_svd_is_that_of_the_queries():
    queries, documents = random_pairs(40, 6)
    sides = reduced(vectors_of(queries, documents), 2, seed=0)
    _, _, directions = np.linalg.svd(queries.astype(np.float64), full_matrices=False)
    ((part, found, of_documents),) = sides.blocks(np.arange(40))
    assert part == slice(0, 40) and sides.width == found.shape[1] == 2
    for side, expected in ((found, queries), (of_documents, documents)):
        expected = unit_rows(expected @ directions[:2].T)
        assert side @ found.T == pytest.approx(
            expected @ unit_rows(queries @ directions[:2].T).T, abs=1e-3
        )


@pytest.mark.parametrize("dimensions", [0, 6, 9])
def test_vectors_stay_as_they_are_where_there_is_nothing_to_reduce(dimensions):
    vectors = vectors_of(*random_pairs(40, 6))
    assert reduced(vectors, dimensions, seed=0) == Sides(vectors)


def test_more_dimensions_than_pairs_are_as_many_as_there_are():
    assert reduced(vectors_of(*random_pairs(3, 6)), 5, seed=0).width == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": 0}, "size is 0; it must be at least 1"),
        ({"dimensions": -1}, "dimensions is -1"),
        ({"iterations": 0}, "iterations is 0"),
        ({"attempts": 0}, "attempts is 0"),
        ({"points": "pared"}, "Did you mean 'paired'"),
    ],
)
def test_settings_out_of_range_are_said(change, said):
    with pytest.raises(ConfigError, match=said):
        KMeans(**{**SETTINGS, "points": "paired", **change})
