import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import cosine
from sklearn.decomposition import PCA

from cde_eval.probes import measures


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


# Over pairs


def test_the_anisotropy_of_three_vectors_is_the_mean_of_three_cosines():
    # East, north and north-east: cosines 0, √½ and √½.
    vectors = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    assert measures.anisotropy(vectors).value == pytest.approx(2 * math.sqrt(0.5) / 3)


def test_isotropic_vectors_have_no_anisotropy_and_equal_ones_all_of_it(rng):
    cloud = measures.anisotropy(rng.standard_normal((2_000, 64)))
    assert cloud.value == pytest.approx(0, abs=0.002)
    assert cloud.low < 0 < cloud.high
    assert measures.anisotropy(np.ones((5, 3))) == pytest.approx((1, 1, 1))


def test_a_cloud_away_from_the_origin_is_a_narrow_cone(rng):
    moved = rng.standard_normal((500, 32)) + 3
    # cos ≈ |mean|² / (|mean|² + dim) = 9 · 32 / (10 · 32)
    assert measures.anisotropy(moved).value == pytest.approx(0.9, abs=0.01)


def test_anisotropy_and_uniformity_are_those_of_a_double_loop(rng, monkeypatch):
    monkeypatch.setattr(measures, "AT_A_TIME", 7)  # blocks that do not divide the number
    vectors = rng.standard_normal((30, 5)).astype(np.float32)
    pairs = list(itertools.combinations(unit(vectors.astype(np.float64)), 2))
    cosines = [1 - cosine(x, y) for x, y in pairs]
    assert measures.anisotropy(vectors).value == pytest.approx(np.mean(cosines))
    nearness = [math.exp(-2 * ((x - y) ** 2).sum()) for x, y in pairs]
    assert measures.uniformity(vectors).value == pytest.approx(math.log(np.mean(nearness)))


def test_uniformity_is_zero_for_one_place_and_near_minus_four_all_around(rng):
    assert measures.uniformity(np.ones((4, 3))).value == pytest.approx(0)
    # Opposite points: squared distance 4, so log exp(-8).
    assert measures.uniformity(np.array([[1.0, 0.0], [-1.0, 0.0]])).value == pytest.approx(-8)
    spread = measures.uniformity(rng.standard_normal((1_000, 256))).value
    # Cosines of variance 1/256: log mean exp(-4 + 4 cos) = -4 + 16 / (2 · 256)
    assert spread == pytest.approx(-4 + 8 / 256, abs=0.01)


def test_the_interval_is_as_wide_as_samples_differ(rng):
    # 200 samples of 100 vectors: their anisotropies differ as the jackknife of one says.
    samples = rng.standard_normal((200, 100, 4)) + 0.7
    found = [measures.anisotropy(one) for one in samples]
    spread = np.std([one.value for one in found])
    said = np.mean([(one.high - one.low) / (2 * 1.96) for one in found])
    assert said == pytest.approx(spread, rel=0.15)


def test_two_vectors_have_a_cosine_and_no_interval():
    found = measures.anisotropy(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert found.value == 0 and math.isnan(found.low)
    assert math.isnan(measures.anisotropy(np.ones((1, 2))).value)


# Words and pairs


def test_self_similarity_is_the_mean_over_words_however_often_they_occur(rng):
    same = np.ones((9, 4))  # cosine 1, nine times
    square = np.eye(4)[:2]  # cosine 0, twice
    assert measures.self_similarity([same, square], rng).value == pytest.approx(0.5)


def test_alignment_is_the_mean_squared_distance_of_a_loop(rng):
    left, right = rng.standard_normal((2, 20, 6))
    by_hand = [((x - y) ** 2).sum() for x, y in zip(unit(left), unit(right), strict=True)]
    found = measures.alignment(left, right, rng)
    assert found.value == pytest.approx(np.mean(by_hand))
    assert found.low < found.value < found.high
    assert measures.alignment(left, 5 * left, rng).value == pytest.approx(0)
    assert measures.alignment(left, -left, rng).value == pytest.approx(4)


# Spectrum


def test_variance_shares_are_those_of_scikit_learn(rng):
    vectors = rng.standard_normal((50, 8)) @ np.diag(np.arange(1, 9))
    expected = PCA().fit(unit(vectors)).explained_variance_ratio_
    assert measures.variance_shares(vectors) == pytest.approx(expected)


def test_the_effective_rank_counts_directions_in_equal_use():
    # ± each axis: no mean, and every direction has the same singular value.
    for dim in (2, 5):
        around = np.concatenate([np.eye(dim), -np.eye(dim)])
        assert measures.effective_rank(around) == pytest.approx(dim)
    assert measures.effective_rank(np.array([[1.0, 0.0], [-1.0, 0.0]])) == pytest.approx(1)


def test_the_effective_rank_of_unequal_directions_is_exp_of_their_entropy():
    # Eight vectors along one axis and two along the other: singular values √8 and √2, which are
    # two thirds and one third of their sum.
    vectors = np.array([[1.0, 0], [-1, 0]] * 4 + [[0, 1.0], [0, -1]])
    expected = math.exp(-(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)))
    assert measures.effective_rank(vectors) == pytest.approx(expected)


def test_equal_vectors_use_no_direction():
    vectors = np.full((6, 4), 0.1, dtype=np.float32)
    assert measures.effective_rank(vectors) == 0
    assert not measures.variance_shares(vectors).any()


@pytest.mark.parametrize(
    ("dim", "steps"), [(384, [8, 16, 32, 64, 128, 256, 384]), (64, [8, 16, 32, 64]), (5, [5])]
)
def test_truncation_goes_in_powers_of_two_up_to_all(dim, steps):
    assert measures.truncation_steps(dim) == steps


# Contexts


def test_spread_and_distance_are_cosine_distances_of_loops(rng):
    vectors = rng.standard_normal((3, 4, 6))  # contexts, documents, dim
    for document in range(4):
        pairs = itertools.combinations(range(3), 2)
        moved = np.mean([cosine(vectors[a, document], vectors[b, document]) for a, b in pairs])
        assert measures.spread(vectors)[document] == pytest.approx(moved)
        others = [
            cosine(vectors[context, document], vectors[context, other])
            for context in range(3)
            for other in range(4)
            if other != document
        ]
        assert measures.distance(vectors)[document] == pytest.approx(np.mean(others))


def test_documents_that_hardly_move_stay_nearest_to_themselves_and_chance_does_not(rng):
    documents = rng.standard_normal((1, 20, 16))
    near = documents + 0.01 * rng.standard_normal((4, 20, 16))
    assert (measures.closer(near) == 1).all()
    by_chance = measures.closer(rng.standard_normal((8, 20, 16)))
    assert by_chance.mean() == pytest.approx(1 / 20, abs=0.05)


def test_documents_that_change_places_are_never_nearest_to_themselves():
    places = np.eye(2)
    assert (measures.closer(np.stack([places, places[::-1]])) == 0).all()
