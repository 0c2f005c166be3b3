import numpy as np
import pytest

from cde_core.train.batching.cluster_report import describe_clusters
from cde_core.train.batching.clusters import Clusters, one_cluster_per_domain
from cde_core.train.data.pairs import Pair, write_pairs

LONG = "a very long document\nof many\t\twords " * 50


@pytest.fixture
def pairs(tmp_path):
    made = [Pair(f"query {i}", LONG if i == 0 else f"document {i}", (), "law" if i < 7 else "tax")
            for i in range(10)]  # fmt: skip
    return write_pairs(made, tmp_path / "pairs")


@pytest.fixture
def clusters():
    return Clusters(
        of=np.array([0, 0, 0, 0, 1, 1, 2, 3, 3, 3], np.int32),
        centroids=np.zeros((4, 2), np.float32),
        domain_of=np.array([0, 0, 0, 1], np.int32),
        inertia=0.12345,
        digest="",
    )


def test_sizes_are_told_per_domain_and_for_all(clusters, pairs):
    table = [line.split() for line in describe_clusters(clusters, pairs).splitlines()[:4]]
    assert table == [
        ["domain", "pairs", "clusters", "smallest", "median", "largest"],
        ["law", "7", "3", "1", "2", "4"],
        ["tax", "3", "1", "3", "3", "3"],
        ["all", "10", "4", "1", "2", "4"],
    ]
    assert "inertia 0.1235" in describe_clusters(clusters, pairs)


def test_samples_show_pairs_of_their_own_cluster(clusters, pairs):
    text = describe_clusters(clusters, pairs, samples=4)
    *_, small, other = text.split("\n\n")
    assert small.splitlines() == ["cluster 2 of law, 1 pair", *small.splitlines()[1:]]
    assert small.splitlines()[1].split("│")[0].strip() == "query 6"
    assert [line.split("│")[1].strip() for line in other.splitlines()[1:]] == [
        "document 7",
        "document 8",
        "document 9",
    ]


def test_nothing_is_wider_than_100_columns_and_long_texts_are_cut(clusters, pairs):
    lines = describe_clusters(clusters, pairs, samples=4).splitlines()
    assert max(map(len, lines)) <= 100
    (cut,) = (line for line in lines if "query 0" in line)
    assert "a very long document of many words a very" in cut and cut.endswith("…")


def test_the_same_seed_shows_the_same_clusters(clusters, pairs):
    one, again, other = (
        describe_clusters(clusters, pairs, samples=2, seed=seed) for seed in (0, 0, 3)
    )
    assert one == again != other
    assert one.count("\ncluster ") == 2


def test_what_was_not_clustered_has_no_inertia(pairs):
    text = describe_clusters(one_cluster_per_domain(pairs.domain_of), pairs)
    assert "inertia" not in text and "cluster 0 of law, 7 pairs" in text


def test_clusters_that_mix_domains_have_no_name(pairs):
    text = describe_clusters(one_cluster_per_domain(np.zeros_like(pairs.domain_of)), pairs)
    assert [line.split() for line in text.splitlines()[1:2]] == [["all", "10", "1", *["10"] * 3]]
    assert "\ncluster 0, 10 pairs" in text and "law" not in text and "tax" not in text


def test_one_domain_needs_no_line_for_all_and_no_name(tmp_path):
    pairs = write_pairs([Pair("q", "d"), Pair("r", "e")], tmp_path / "one")
    text = describe_clusters(one_cluster_per_domain(pairs.domain_of), pairs)
    assert "(none)" in text and "\nall" not in text and "cluster 0, 2 pairs" in text
