import math

import numpy as np
import pytest
from scipy import stats

from cde_eval.report.correlation import pearson, signed


def test_r_agrees_with_a_sum_done_by_hand():
    # Deviations from the means: x −1.5 −0.5 0.5 1.5, y −1.25 −0.25 −0.25 1.75.
    #   Σxy = 1.875 + 0.125 − 0.125 + 2.625 = 4.5
    #   Σx² = 2 · 2.25 + 2 · 0.25 = 5,  Σy² = 1.5625 + 2 · 0.0625 + 3.0625 = 4.75
    found = pearson([1, 2, 3, 4], [0, 1, 1, 3])
    assert found.r == pytest.approx(4.5 / math.sqrt(5 * 4.75))


def test_r_and_interval_are_scipys_and_fishers():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30)
    y = x + rng.standard_normal(30)
    found = pearson(x, y)
    assert found.r == pytest.approx(stats.pearsonr(x, y).statistic)
    assert found.r == pytest.approx(np.corrcoef(x, y)[0, 1])
    z, half = math.atanh(found.r), stats.norm.ppf(0.975) / math.sqrt(27)
    assert (found.low, found.high) == pytest.approx((math.tanh(z - half), math.tanh(z + half)))


def test_too_few_points_or_no_variation_give_no_correlation():
    assert pearson([1, 2, 3], [1, 2, 3]) is None
    assert pearson([1, 1, 1, 1], [1, 2, 3, 4]) is None
    assert pearson([1, 2, 3, math.nan], [1, 2, 3, 4]) is None


def test_what_is_not_known_is_left_out():
    assert pearson([1, 2, 3, 4, math.nan], [0, 1, 1, 3, 9]) == pearson([1, 2, 3, 4], [0, 1, 1, 3])


def test_it_prints_with_signs_as_print_has_them():
    assert signed(-0.5) == "−0.50"
    assert str(pearson([1, 2, 3, 4], [3, 1, 1, 0])).startswith("r = −0.92 [")
