"""Nothing is lost, nothing is told twice, and the shares are as asked."""

import numpy as np
import pytest

from cde_core.errors import ConfigError
from cde_core.train.pretraining.span_corruption import corrupt, span_lengths

SENTINELS = np.arange(9000, 9100, dtype=np.int32)


def rng(*seed):
    return np.random.default_rng(list(seed))


def restored(read, said):
    """The text that a reader of both would put together."""
    spans, span = {}, []
    for token in said.tolist():
        if token >= 9000:
            span = spans.setdefault(token, [])
        else:
            span.append(token)
    return [t for token in read.tolist() for t in spans.get(token, [token])]


@pytest.mark.parametrize("length", [2, 3, 7, 40, 512, 2046])
@pytest.mark.parametrize("seed", range(5))
def test_every_token_is_in_the_input_or_in_the_target(length, seed):
    tokens = np.arange(length, dtype=np.int32)
    found = corrupt(tokens, SENTINELS, rng(seed))
    kept, cut = found.input[found.input < 9000], found.target[found.target < 9000]
    assert sorted([*kept, *cut]) == list(range(length)) and len({*kept} & {*cut}) == 0
    used = found.target[found.target >= 9000].tolist()
    assert found.input[found.input >= 9000].tolist() == used == list(range(9000, 9000 + len(used)))
    assert restored(*found) == tokens.tolist()
    assert found.input.dtype == found.target.dtype == np.int32


def test_the_share_and_the_mean_length_are_as_asked():
    for share, mean in ((0.15, 3.0), (0.3, 5.0), (0.5, 2.0)):
        lengths = span_lengths(600, rng(0), share=share, mean_length=mean, most=1000)
        gone = lengths[:, 1]
        assert gone.sum() == 600 * share and gone.mean() == pytest.approx(mean)
        assert lengths.sum() == 600 and lengths.min() == 1


def test_by_hand():
    # 8 tokens, a quarter gone in spans of 1: two spans of one token each, kept pieces 6 in two.
    found = corrupt(np.arange(8, dtype=np.int32), SENTINELS, rng(0), share=0.25, mean_length=1)
    (first,) = {1, 2, 3, 4, 5} & set(found.target.tolist())  # the second is the last token
    assert found.target.tolist() == [9000, first, 9001, 7]
    expected = [*range(first), 9000, *range(first + 1, 7), 9001]
    assert found.input.tolist() == expected


def test_all_cuts_are_equally_likely():
    # 5 kept tokens and 2 that are gone, in two spans: the kept ones are cut in one of 4 places.
    firsts = [
        span_lengths(7, rng(seed), share=0.3, mean_length=1, most=9)[0, 0] for seed in range(4000)
    ]
    counts = np.bincount(firsts, minlength=5)[1:]
    assert counts.sum() == 4000 and np.all(np.abs(counts - 1000) < 4 * np.sqrt(4000 * 0.25 * 0.75))


def test_with_too_few_sentinels_spans_are_fewer_and_longer():
    lengths = span_lengths(2046, rng(0), share=0.15, mean_length=3, most=100)
    assert len(lengths) == 100 and lengths[:, 1].sum() == round(2046 * 0.15)


def test_the_same_seed_cuts_the_same_spans_and_another_cuts_others():
    tokens = np.arange(100, dtype=np.int32)
    one, again, other = (
        corrupt(tokens, SENTINELS, rng(*seed)) for seed in ((1, 2), (1, 2), (1, 3))
    )
    assert np.array_equal(one.input, again.input) and np.array_equal(one.target, again.target)
    assert not np.array_equal(one.target, other.target)


def test_what_cannot_be_cut_is_told():
    with pytest.raises(ConfigError, match="A span cannot be cut out of 1 tokens"):
        corrupt(np.zeros(1, np.int32), SENTINELS, rng(0))
    with pytest.raises(ConfigError, match="with 0 sentinels"):
        corrupt(np.zeros(9, np.int32), SENTINELS[:0], rng(0))
