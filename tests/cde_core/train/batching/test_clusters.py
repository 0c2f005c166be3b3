import dataclasses
import errno

import numpy as np
import pytest

from cde_core.errors import DataError
from cde_core.train.batching import clusters as module
from cde_core.train.batching import pair_kmeans
from cde_core.train.batching.clusters import cluster_pairs, one_cluster_per_domain
from cde_core.train.batching.surrogates import PairVectors, unit_rows

BOTH = pytest.mark.parametrize("points", ["paired", "free"])


def pair_vectors(queries, documents, digest="digest"):
    queries, documents = (np.asarray(side, np.float32) for side in (queries, documents))
    return PairVectors(queries, documents, np.zeros((0, queries.shape[1]), np.float32), digest)


def blobs(matters, each, *, width=16, noise=0.05, apart=False):
    """Pairs about some matters; a matter's queries and documents lie together, or apart."""
    rng = np.random.default_rng(0)
    of = np.tile(np.arange(matters), each)
    centres = unit_rows(rng.standard_normal((2, matters, width)).reshape(-1, width))
    sides = (
        unit_rows(centres[of + start] + noise * rng.standard_normal((len(of), width)))
        for start in (0, matters if apart else 0)
    )
    return pair_vectors(*sides), of


def one_domain(vectors):
    return np.zeros(len(vectors.queries), np.int32)


def same_partition(one, other):
    return (
        len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(set(one)) == len(set(other))
    )


def same(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)
    )


@BOTH
def test_matters_that_lie_apart_are_found(points):
    vectors, matter = blobs(5, 20)
    clusters = cluster_pairs(vectors, one_domain(vectors), size=20, points=points, attempts=10)
    assert same_partition(clusters.of, matter)
    assert clusters.of.dtype == clusters.domain_of.dtype == np.int32
    assert clusters.centroids.dtype == np.float32


def test_bound_points_find_matters_whose_queries_and_documents_lie_apart_and_free_ones_do_not():
    vectors, matter = blobs(5, 20, apart=True)
    bound, free = (
        cluster_pairs(vectors, one_domain(vectors), size=20, points=points, attempts=10)
        for points in ("paired", "free")
    )
    assert same_partition(bound.of, matter)
    assert len(free.centroids) < 5  # the others went to the mirror images


def test_inertia_is_the_mean_over_both_points_of_every_pair():
    vectors, _ = blobs(5, 20, noise=0.5)
    clusters = cluster_pairs(vectors, one_domain(vectors), size=10)
    total = 0.0
    for c in range(len(clusters.centroids)):
        q, d = vectors.queries[clusters.of == c], vectors.documents[clusters.of == c]
        points = np.vstack((np.hstack((q, d)), np.hstack((d, q))))
        total += np.square(points - points.mean(0)).sum()
        assert points.mean(0) == pytest.approx(np.tile(clusters.centroids[c], 2), abs=1e-6)
    assert clusters.inertia == pytest.approx(total / 200, rel=1e-5)


def test_binding_a_pairs_points_gives_no_worse_clusters_of_pairs():
    vectors, _ = blobs(8, 40, noise=0.4)
    bound, free = (
        cluster_pairs(vectors, one_domain(vectors), size=40, points=points, attempts=30)
        for points in ("paired", "free")
    )
    assert bound.inertia <= free.inertia * 1.01


def test_which_side_is_the_query_does_not_matter_where_points_are_bound():
    vectors, _ = blobs(5, 20, noise=0.3)
    turned = pair_vectors(vectors.documents, vectors.queries)
    one, other = (cluster_pairs(v, one_domain(v), size=10) for v in (vectors, turned))
    assert np.array_equal(one.of, other.of) and one.inertia == pytest.approx(other.inertia)


@BOTH
def test_the_same_data_and_seed_give_the_same_clusters_bit_for_bit(points):
    vectors, _ = blobs(9, 30, noise=0.5)
    domain_of = np.arange(270, dtype=np.int32) % 2
    settings = {"size": 13, "dimensions": 5, "points": points}
    one, other = (cluster_pairs(vectors, domain_of, **settings) for _ in range(2))
    assert same(one, other)
    assert not np.array_equal(one.of, cluster_pairs(vectors, domain_of, **settings, seed=1).of)


@BOTH
def test_clusters_stay_within_domains_and_are_numbered_domain_by_domain(points):
    vectors, _ = blobs(4, 25)
    domain_of = np.random.default_rng(0).integers(0, 3, 100).astype(np.int32) * 2  # 0, 2 and 4
    clusters = cluster_pairs(vectors, domain_of, size=10, points=points)
    assert np.array_equal(clusters.domain_of[clusters.of], domain_of)
    assert (np.diff(clusters.domain_of) >= 0).all()
    assert set(clusters.of) == set(range(len(clusters.centroids)))


def test_a_domain_is_clustered_as_if_it_were_alone():
    vectors, _ = blobs(4, 25, noise=0.5)
    domain_of = (np.arange(100) >= 60).astype(np.int32)
    together = cluster_pairs(vectors, domain_of, size=10)
    alone = cluster_pairs(
        pair_vectors(vectors.queries[60:], vectors.documents[60:]), domain_of[60:], size=10
    )
    assert np.array_equal(together.of[60:] - together.of[60:].min(), alone.of)


@pytest.mark.parametrize(("size", "expected"), [(100, 1), (1000, 1), (99, 2), (34, 3), (1, 100)])
def test_a_domain_has_a_cluster_for_every_so_many_pairs(size, expected):
    rng = np.random.default_rng(0)
    vectors = pair_vectors(*(unit_rows(rng.standard_normal((100, 6))) for _ in range(2)))
    clusters = cluster_pairs(vectors, one_domain(vectors), size=size)
    assert len(clusters.centroids) == expected


@BOTH
@pytest.mark.parametrize(
    "degenerate",
    [
        np.ones((40, 4)) / 2,
        np.zeros((40, 4)),
        np.repeat(np.eye(4)[:2], 20, axis=0),
        np.vstack((np.zeros((39, 4)), np.eye(4)[:1])),
    ],
    ids=["identical", "zeros", "two points", "zeros but one"],
)
@pytest.mark.parametrize(
    "settings", [{"size": 5}, {"size": 1}, {"size": 7, "dimensions": 2}], ids=str
)
def test_degenerate_data_are_clustered_too(degenerate, settings, points):
    vectors = pair_vectors(degenerate, degenerate)
    clusters = cluster_pairs(vectors, one_domain(vectors), points=points, **settings)
    assert set(clusters.of) == set(range(len(clusters.centroids)))
    assert np.isfinite(clusters.centroids).all() and np.isfinite(clusters.inertia)


def test_few_distinct_pairs_are_told_apart_without_empty_clusters():
    points = np.repeat(np.eye(4), 10, axis=0)
    vectors = pair_vectors(points, points)
    clusters = cluster_pairs(vectors, one_domain(vectors), size=4, attempts=20)
    assert same_partition(clusters.of, np.repeat(np.arange(4), 10))
    assert clusters.inertia == pytest.approx(0, abs=1e-6)


def test_faiss_is_given_every_point_and_says_nothing(monkeypatch, capfd):
    import faiss

    seen, train = [], faiss.Kmeans.train
    monkeypatch.setattr(
        faiss.Kmeans, "train", lambda self, x: seen.append((self, x.shape)) or train(self, x)
    )
    rng = np.random.default_rng(0)
    vectors = pair_vectors(*(unit_rows(rng.standard_normal((600, 4))) for _ in range(2)))
    for points, shape in (("paired", (600, 4)), ("free", (1200, 8))):
        cluster_pairs(vectors, one_domain(vectors), size=300, points=points, iterations=3)
        kmeans, given = seen.pop()
        assert given == shape and kmeans.cp.max_points_per_centroid * kmeans.k > 10**9
    cluster_pairs(vectors, one_domain(vectors), size=20, iterations=3)
    assert capfd.readouterr() == ("", "")


def forbidden(*_, **__):
    raise AssertionError("clustered again")


def test_clusters_are_kept_by_content(tmp_path, monkeypatch):
    vectors, _ = blobs(4, 25)
    asked = {"size": 10, "dimensions": 4, "cache": tmp_path}
    heard = []
    first = cluster_pairs(vectors, one_domain(vectors), **asked, progress=heard.append)
    monkeypatch.setattr(module, "cluster_domain", forbidden)
    second = cluster_pairs(vectors, one_domain(vectors), **asked, progress=heard.append)
    assert same(first, second) and heard == [100, 100]
    assert [file.name for file in (tmp_path / "clusters").iterdir()] == [f"{first.digest}.npz"]


def test_other_data_domains_or_settings_are_other_clusters():
    vectors, _ = blobs(4, 25)
    domain_of = one_domain(vectors)
    others = [
        {"size": 20},
        {"dimensions": 3},
        {"iterations": 5},
        {"attempts": 1},
        {"seed": 1},
        {"points": "free"},
    ]
    digests = [cluster_pairs(vectors, domain_of, **{"size": 30, **one}).digest for one in others]
    digests += [
        cluster_pairs(vectors, domain_of, size=30).digest,
        cluster_pairs(vectors, 1 - domain_of, size=30).digest,
        cluster_pairs(dataclasses.replace(vectors, digest="x"), domain_of, size=30).digest,
    ]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", "cut", "flip", "other"])
def test_a_damaged_file_is_remade(tmp_path, content):
    vectors, _ = blobs(4, 25)
    first = cluster_pairs(vectors, one_domain(vectors), size=10, cache=tmp_path)
    file = tmp_path / "clusters" / f"{first.digest}.npz"
    whole = file.read_bytes()
    if content == "cut":
        file.write_bytes(whole[:-100])
    elif content == "flip":
        file.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    elif content == "other":
        fewer = pair_vectors(vectors.queries[:50], vectors.documents[:50])
        other = cluster_pairs(fewer, one_domain(fewer), size=10, cache=tmp_path)
        (tmp_path / "clusters" / f"{other.digest}.npz").replace(file)
    else:
        file.write_bytes(content)
    assert same(cluster_pairs(vectors, one_domain(vectors), size=10, cache=tmp_path), first)
    assert file.read_bytes() == whole


def test_reading_in_blocks_changes_nothing(monkeypatch):
    vectors, _ = blobs(4, 25, noise=0.5)
    whole = cluster_pairs(vectors, one_domain(vectors), size=10)
    monkeypatch.setattr(pair_kmeans, "ROWS_AT_ONCE", 7)
    parts = cluster_pairs(vectors, one_domain(vectors), size=10)
    assert np.array_equal(parts.of, whole.of)
    assert parts.centroids == pytest.approx(whole.centroids, abs=1e-6)
    assert parts.inertia == pytest.approx(whole.inertia)


def test_without_clustering_every_domain_is_one_cluster():
    clusters = one_cluster_per_domain(np.array([3, 0, 3, 3], np.int32))
    assert clusters.of.tolist() == [1, 0, 1, 1] and clusters.domain_of.tolist() == [0, 3]
    assert clusters.centroids.shape == (2, 0) and np.isnan(clusters.inertia)


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    vectors, _ = blobs(2, 3)
    (tmp_path / "clusters").write_text("in the way")
    with pytest.raises(DataError, match=r"clusters \(File exists\); make room .* CDE_EVAL_CACHE"):
        cluster_pairs(vectors, one_domain(vectors), size=3, cache=tmp_path)


def test_where_there_is_no_room_no_part_of_a_file_is_left(tmp_path, monkeypatch):
    def full(out, **arrays):
        out.write(b"some of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.np, "savez", full)
    vectors, _ = blobs(2, 3)
    with pytest.raises(DataError, match="No space left on device"):
        cluster_pairs(vectors, one_domain(vectors), size=3, cache=tmp_path)
    assert not list((tmp_path / "clusters").iterdir())
