import dataclasses

import numpy as np
import pytest

from cde_core.errors import ConfigError
from cde_core.train.batching import packing
from cde_core.train.batching.clusters import Clusters, one_cluster_per_domain
from cde_core.train.batching.packing import greedy_walk, pack

ORDERS = ("random", "nearest")
ACROSS = ("never", "leftovers", "always")
EVERY_WAY = pytest.mark.parametrize(
    ("order", "across"), [(order, across) for order in ORDERS for across in ACROSS]
)


def clusters_of(sizes, domain_of=None, centroids=None):
    """Clusters of these sizes, their pairs strewn over the rows."""
    of = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if centroids is None:
        centroids = np.random.default_rng(1).standard_normal((len(sizes), 4))
    if domain_of is None:
        domain_of = np.zeros(len(sizes))
    return Clusters(
        of=of.astype(np.int32),
        centroids=np.asarray(centroids, np.float32),
        domain_of=np.asarray(domain_of, np.int32),
        inertia=0.0,
        digest="",
    )


def packed(clusters, batch_size=8, order="nearest", across="never", seed=0, epoch=0):
    return pack(
        clusters,
        batch_size=batch_size,
        order=order,
        across_domains=across,
        seed=seed,
        epoch=epoch,
    )


def random_clusters(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    return clusters_of(rng.integers(1, 30, count), domain_of=np.sort(rng.integers(0, 4, count)))


def domains_in(batch, clusters):
    return set(clusters.domain_of[clusters.of[batch]].tolist())


@EVERY_WAY
@pytest.mark.parametrize("seed", range(8))
def test_every_pair_comes_exactly_once_in_a_batch_or_left_out(order, across, seed):
    clusters = random_clusters(seed)
    found = packed(clusters, order=order, across=across, seed=seed)
    assert found.batches.shape[1] == 8
    assert found.batches.dtype == found.left_out.dtype == np.int64
    rows = np.concatenate((found.batches.ravel(), found.left_out))
    assert np.array_equal(np.sort(rows), np.arange(len(clusters.of)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(8))
def test_batches_stay_within_a_domain_unless_asked(order, seed):
    clusters = random_clusters(seed)
    pairs = np.bincount(clusters.domain_of[clusters.of])
    never = packed(clusters, order=order)
    assert all(len(domains_in(batch, clusters)) == 1 for batch in never.batches)
    assert len(never.batches) == (pairs // 8).sum()  # nobody could make more
    leftovers = packed(clusters, order=order, across="leftovers")
    mixed = sum(len(domains_in(batch, clusters)) > 1 for batch in leftovers.batches)
    assert mixed <= (pairs % 8).sum() // 8
    assert len(leftovers.batches) == len(never.batches) + (pairs % 8).sum() // 8
    always = packed(clusters, order=order, across="always")
    assert len(always.batches) == len(clusters.of) // 8
    assert len(always.left_out) == len(clusters.of) % 8


@EVERY_WAY
def test_clusters_larger_than_a_batch_are_split_into_full_batches(order, across):
    clusters = clusters_of([20, 3, 17, 8])
    found = packed(clusters, order=order, across=across)
    whole = [set(clusters.of[batch].tolist()) for batch in found.batches]
    assert [whole.count({number}) for number in range(4)] == [2, 0, 2, 1]
    assert len(found.batches) == 6  # 48 pairs; the last batch holds 4, 3 and 1 of three clusters


def test_small_near_clusters_are_merged():
    # Two towns far apart, four clusters of 4 in each: a walk leaves a town once it is done.
    towns = np.repeat([[0, 0], [100, 0]], 4, axis=0)
    centroids = towns + np.random.default_rng(0).standard_normal((8, 2))
    clusters = clusters_of([4] * 8, centroids=centroids)
    for epoch in range(10):
        for batch in packed(clusters, order="nearest", epoch=epoch).batches:
            assert len(set(clusters.of[batch] // 4)) == 1
    random = [packed(clusters, order="random", epoch=epoch).batches for epoch in range(10)]
    assert any(len(set(clusters.of[batch] // 4)) == 2 for found in random for batch in found)


@EVERY_WAY
def test_an_epoch_is_the_same_again_and_unlike_others(order, across):
    clusters = clusters_of([30, 5, 13, 9, 2, 6], domain_of=[0, 0, 0, 1, 1, 1])
    first, again, next_epoch, other_seed = (
        packed(clusters, order=order, across=across, **run)
        for run in ({}, {}, {"epoch": 1}, {"seed": 1})
    )
    assert np.array_equal(first.batches, again.batches)
    assert np.array_equal(first.left_out, again.left_out)
    for other in (next_epoch, other_seed):
        assert other.batches.shape == first.batches.shape
        mixed = {frozenset(batch) for batch in first.batches.tolist()}
        assert mixed != {frozenset(batch) for batch in other.batches.tolist()}


def test_what_is_left_out_changes_so_that_every_pair_has_its_turn():
    clusters = clusters_of([7, 6], domain_of=[0, 0])
    left = [set(packed(clusters, epoch=epoch).left_out.tolist()) for epoch in range(40)]
    assert all(len(one) == 5 for one in left) and set().union(*left) == set(range(13))


def test_members_of_a_cluster_are_shuffled_without_preference():
    # One cluster of 4 in batches of 2: six possible first batches, about equally often.
    clusters = clusters_of([4])
    times: dict[frozenset[int], int] = {}
    for epoch in range(600):
        found = frozenset(packed(clusters, batch_size=2, epoch=epoch).batches[0].tolist())
        times[found] = times.get(found, 0) + 1
    assert len(times) == 6 and min(times.values()) > 60


def test_domains_batches_are_mixed():
    clusters = clusters_of([80, 80], domain_of=[0, 1])
    domains = [min(domains_in(batch, clusters)) for batch in packed(clusters).batches]
    assert domains not in ([0] * 10 + [1] * 10, [1] * 10 + [0] * 10)


def naive_walk(points):
    here, left, order = 0, set(range(1, len(points))), [0]
    while left:
        here = min(left, key=lambda other: np.square(points[here] - points[other]).sum())
        left.remove(here)
        order.append(here)
    return order


@pytest.mark.parametrize("count", [1, 2, 3, 60])
def test_the_walk_is_the_one_that_a_plain_loop_takes(count):
    points = np.random.default_rng(count).standard_normal((count, 5))
    assert greedy_walk(points.astype(np.float32)).tolist() == naive_walk(points)


def test_the_walk_visits_points_at_one_place_too():
    assert sorted(greedy_walk(np.ones((5, 3), np.float32)).tolist()) == list(range(5))
    assert sorted(greedy_walk(np.ones((5, 0), np.float32)).tolist()) == list(range(5))


def test_a_nearest_line_is_a_greedy_walk_over_the_centroids():
    # Batches of one cluster each would hide the line, so batches hold two clusters of 4.
    clusters = clusters_of([4] * 10)
    near = {frozenset(set(clusters.of[batch].tolist())) for batch in packed(clusters).batches}
    walks = []
    for start in range(10):
        turned = np.roll(np.arange(10), -start)
        walk = turned[naive_walk(clusters.centroids[turned])]
        walks.append({frozenset(two) for two in walk.reshape(5, 2).tolist()})
    assert near in walks


@EVERY_WAY
def test_many_clusters_are_walked_in_groups(order, across, monkeypatch):
    monkeypatch.setattr(packing, "WALKED_TOGETHER", 7)
    walked = []
    walk = packing.greedy_walk
    monkeypatch.setattr(
        packing, "greedy_walk", lambda points: walked.append(len(points)) or walk(points)
    )
    clusters = clusters_of([3] * 50)
    found = packed(clusters, order=order, across=across)
    rows = np.concatenate((found.batches.ravel(), found.left_out))
    assert np.array_equal(np.sort(rows), np.arange(150))
    if order == "nearest":
        assert max(walked) <= 7 and sum(walked[:8]) == 50


def test_more_clusters_than_16_bits_can_number_are_told_apart():
    of = np.random.default_rng(0).permutation(np.arange(140_000) // 2).astype(np.int32)
    sorted_rows = packing._by_number(of, 70_000)
    assert np.array_equal(sorted_rows, np.argsort(of, kind="stable"))
    clusters = Clusters(of, np.zeros((70_000, 1), np.float32), np.zeros(70_000, np.int32), 0.0, "")
    batches = packed(clusters, batch_size=2, order="random").batches
    assert (of[batches[:, 0]] == of[batches[:, 1]]).all()


@EVERY_WAY
def test_too_few_pairs_for_a_batch_are_all_left_out(order, across):
    found = packed(clusters_of([2, 3], domain_of=[0, 1]), order=order, across=across)
    assert found.batches.shape == (0, 8)
    assert sorted(found.left_out.tolist()) == list(range(5))


@EVERY_WAY
def test_unclustered_domains_pack_too(order, across):
    clusters = one_cluster_per_domain(np.array([0] * 21 + [3] * 13, np.int32))
    found = packed(clusters, order=order, across=across)
    assert len(found.batches) == (4 if across != "never" else 3)


def test_leftovers_of_domains_near_each_other_meet():
    # Four domains with 4 pairs left of each; 0 and 2 are near, and so are 1 and 3.
    centroids = [[0, 0], [50, 0], [1, 0], [51, 0]]
    clusters = clusters_of([12] * 4, domain_of=range(4), centroids=centroids)
    for epoch in range(6):
        found = packed(clusters, order="nearest", across="leftovers", epoch=epoch)
        mixed = [d for batch in found.batches if len(d := domains_in(batch, clusters)) > 1]
        assert sorted(map(sorted, mixed)) == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch_size": 0}, "size is 0"),
        ({"order": "nearst"}, "packing is 'nearst'.*Did you mean 'nearest'"),
        ({"across": "alway"}, "across_domains is 'alway'.*Did you mean 'always'"),
    ],
)
def test_settings_that_cannot_be_are_said(change, said):
    with pytest.raises(ConfigError, match=said):
        packed(clusters_of([3]), **change)


def test_the_clusters_are_left_as_they_were():
    clusters = clusters_of([30, 5, 13])
    before = dataclasses.replace(clusters, of=clusters.of.copy())
    packed(clusters)
    assert np.array_equal(clusters.of, before.of)
