import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cde_core.errors import ConfigError, DataError
from cde_eval.compare import Comparison, Difference, compare
from cde_eval.resampling import (
    holm,
    interval,
    randomisation_p,
    resampled_means,
    resampled_over_draws,
)
from cde_eval.results import query_scores_path, record_path, write_atomically
from cde_eval.sides import find_side
from tests.cde_eval.tiny_records import record

Place = tuple[str, str]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def differences(*values: float) -> list[np.ndarray]:
    return [np.array(values)]


def write(
    output: Path,
    task: str,
    policy: str,
    scores: Mapping[Place, Mapping[str, float]] | Sequence[float] | None,
    **changes: Any,
) -> Path:
    """A record, and the scores of its queries beside it: a list is those of q0, q1, … ."""
    if scores is not None and not isinstance(scores, Mapping):
        scores = {("test", "default"): {f"q{i}": score for i, score in enumerate(scores)}}
    if scores is not None:
        changes["scores"] = {place: float(np.mean([*s.values()])) for place, s in scores.items()}
    made = record(task, policy=policy, **changes)
    choices = {"context": policy, "draw": str(made.draw), "protocol": made.protocol}
    choices |= made.settings | {"candidates": str(made.candidates)} | {"size": made.context_size}
    choices = {name: str(value) for name, value in choices.items()}
    path = record_path(output, made.model, made.model_revision, choices, task)
    if scores is not None:
        rows = [
            (*place, query, score) for place, of in scores.items() for query, score in of.items()
        ]
        table = pd.DataFrame(rows, columns=["split", "subset", "query", "ndcg_at_10"])
        write_atomically(query_scores_path(path), table.to_csv(index=False))
    write_atomically(path, made.model_dump_json())
    return path


def compared(output: Path, a: str = "none", b: str = "corpus", **choices: Any) -> Comparison:
    narrowed = {name: choices.pop(name) for name in ("model", "context") if name in choices}
    sides = (find_side(letter, asked, output, **narrowed) for letter, asked in (("A", a), ("B", b)))
    return compare(*sides, **choices)


def only(comparison: Comparison) -> Difference:
    (one,) = comparison.tasks
    return one


# The randomisation test


def test_three_queries_that_all_gained_are_two_of_eight_sign_patterns():
    # Sums of ±1 ±2 ±3: only +++ and −−− reach 6 or −6, so p = 2 / 8.
    assert randomisation_p(differences(0.1, 0.2, 0.3), rng()) == pytest.approx(2 / 8)


def test_a_loss_among_gains_by_hand():
    # +.1 +.2 −.05 +.3 sum to .55. As far from zero: itself, ++++ (.65), and those two negated.
    assert randomisation_p(differences(0.1, 0.2, -0.05, 0.3), rng()) == pytest.approx(4 / 16)


def test_five_equal_gains_and_a_balance():
    assert randomisation_p(differences(*[0.2] * 5), rng()) == pytest.approx(2 / 32)
    assert randomisation_p(differences(0.2, -0.2), rng()) == 1


def test_ties_change_no_p():
    with_ties = differences(0.1, 0.2, 0.0, -0.05, 0.3, *[0.0] * 40)
    assert randomisation_p(with_ties, rng()) == pytest.approx(4 / 16)


def test_no_difference_and_one_difference_are_no_evidence():
    assert randomisation_p(differences(0, 0, 0), rng()) == 1
    assert randomisation_p(differences(0.9), rng()) == 1
    assert randomisation_p(differences(0.9, 0, 0), rng()) == 1


def test_strata_count_equally_whatever_their_number_of_queries():
    # Parts of the mean of means: .4/2 from the first, .1/4 twice from the second.
    # Patterns with |±.2 ±.025 ±.025| ≥ .25: +++ and −−−.
    strata = [np.array([0.4]), np.array([0.1, 0.1])]
    assert randomisation_p(strata, rng()) == pytest.approx(2 / 8)
    # With the second negated the sum is .15: |.2 ± .025 ± .025| is never smaller, so all 8.
    assert randomisation_p([strata[0], -strata[1]], rng()) == pytest.approx(1)


def test_many_queries_give_about_the_p_of_all_sign_patterns():
    values = np.random.default_rng(1).normal(0.02, 0.1, 16)  # 65,536 patterns: by chance
    signs = np.array(list(itertools.product((-1, 1), repeat=16)))
    exact = np.mean(np.abs(signs @ values) >= abs(values.sum()) - 1e-12)
    # 10,000 patterns: a standard error of sqrt(p (1 − p) / 10,000) is at most .005
    assert randomisation_p([values], rng()) == pytest.approx(exact, abs=0.02)


def test_many_queries_give_about_the_p_of_the_t_test():
    values = np.random.default_rng(2).normal(0.02, 0.1, 150)
    expected = stats.ttest_1samp(values, 0).pvalue
    assert randomisation_p([values], rng()) == pytest.approx(expected, abs=0.02)


# The interval


def test_equal_differences_leave_no_doubt():
    means = resampled_means(differences(*[0.25] * 6), rng())
    assert means is not None and interval(means) == pytest.approx((0.25, 0.25))


def test_one_query_says_nothing_about_others():
    assert resampled_means(differences(0.3), rng()) is None
    assert resampled_means([np.array([0.1, 0.2]), np.array([0.3])], rng()) is None


def test_many_queries_give_about_the_normal_interval():
    values = np.random.default_rng(3).normal(0.1, 0.2, 400)
    error = values.std() / 20
    means = resampled_means([values], rng())
    assert means is not None and len(means) == 10_000
    expected = (values.mean() - 1.96 * error, values.mean() + 1.96 * error)
    assert interval(means) == pytest.approx(expected, abs=0.1 * error)


def test_strata_are_resampled_each_by_itself():
    # Within each stratum nothing varies; over both together the mean would.
    means = resampled_means([np.full(3, 0.1), np.full(5, 0.5)], rng())
    assert means is not None and interval(means) == pytest.approx((0.3, 0.3))


# The interval over draws


def over_draws(*strata: tuple[list[list[float]], list[list[float]]], paired: bool) -> np.ndarray:
    means = resampled_over_draws(
        [(np.array(a), np.array(b)) for a, b in strata], rng(), paired=paired
    )
    assert means is not None and len(means) == 10_000
    return means


def test_two_draws_are_taken_in_four_ways():
    # Queries do not vary. Draws of B score .2 and .4, so two taken score .2, .3, .3 or .4.
    means = over_draws(([[0.0, 0.0]], [[0.2, 0.2], [0.4, 0.4]]), paired=False)
    values, counts = np.unique(means.round(9), return_counts=True)
    assert values == pytest.approx([0.2, 0.3, 0.4])
    assert counts / 10_000 == pytest.approx([1 / 4, 1 / 2, 1 / 4], abs=0.03)
    assert interval(means) == pytest.approx((0.2, 0.4))


def test_draws_of_both_sides_are_taken_together_where_they_are_pairs():
    # Each draw of B is .1 above its fellow of A. Taken apart, B may be .4 and A .1, or .2 and .3:
    # one way of sixteen each, more than the 2.5 % that the interval leaves out.
    sides = ([[0.1, 0.1], [0.3, 0.3]], [[0.2, 0.2], [0.4, 0.4]])
    assert interval(over_draws(sides, paired=True)) == pytest.approx((0.1, 0.1))
    assert interval(over_draws(sides, paired=False)) == pytest.approx((-0.1, 0.3))


def test_draws_that_agree_say_no_more_about_queries_than_one():
    values = np.random.default_rng(7).normal(0.1, 0.2, 60)
    alone = resampled_means([values], rng())
    means = over_draws(([[0.0] * 60], [list(values)] * 5), paired=False)
    assert alone is not None
    assert interval(means) == pytest.approx(interval(alone), abs=0.01)


def test_a_draw_is_of_all_strata():
    # Of one draw both strata gain .2, of the other none; taken apart there would be five means.
    stratum = ([[0.0, 0.0]], [[0.0, 0.0], [0.2, 0.2]])
    counts = np.unique(over_draws(stratum, stratum, paired=False).round(9), return_counts=True)[1]
    assert counts / 10_000 == pytest.approx([1 / 4, 1 / 2, 1 / 4], abs=0.03)
    one_query = ([[0.0]], [[0.0], [0.2]])
    strata = [tuple(map(np.array, sides)) for sides in (stratum, one_query)]
    assert resampled_over_draws(strata, rng(), paired=False) is None


def test_the_memory_of_a_batch_changes_no_answer(monkeypatch):
    sides = ([[0.1, 0.3], [0.3, 0.1]], [[0.2, 0.5], [0.4, 0.6]])
    whole = over_draws(sides, paired=True)
    monkeypatch.setattr("cde_eval.resampling.NUMBERS_AT_A_TIME", 3_000)
    parts = over_draws(sides, paired=True)
    assert interval(parts) == pytest.approx(interval(whole), abs=0.01)


# The correction


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04 times 4 3 2 1 is .04 .06 .06 .04, and the last may not fall to .04.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.04]) == pytest.approx([0.04])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert holm([]) == []


# A task


def test_a_task_by_hand(tmp_path: Path):
    write(tmp_path, "T", "none", [0.5, 0.2, 0.0, 0.7])
    write(tmp_path, "T", "corpus", [0.6, 0.4, 0.3, 0.7])
    one = only(compared(tmp_path))
    assert (one.a, one.b) == pytest.approx((0.35, 0.5))
    assert one.difference == pytest.approx(0.15)
    assert (one.won, one.lost, one.tied) == (3, 0, 1)
    assert one.p == one.p_corrected == pytest.approx(2 / 8)
    assert one.low is not None and one.high is not None
    assert 0 <= one.low < 0.15 < one.high <= 0.3 and not one.significant
    mean = compared(tmp_path).mean
    assert (mean.difference, mean.low, mean.high) == (one.difference, one.low, one.high)


def test_subsets_count_equally_whatever_their_number_of_queries(tmp_path: Path):
    german, english = ("test", "deu"), ("test", "eng")
    write(tmp_path, "T", "none", {german: {"q": 0.1, "r": 0.1, "s": 0.1}, english: {"q": 0.5}})
    write(tmp_path, "T", "corpus", {german: {"q": 0.2, "r": 0.2, "s": 0.2}, english: {"q": 0.9}})
    one = only(compared(tmp_path))
    assert one.difference == pytest.approx((0.1 + 0.4) / 2)
    assert (one.a, one.b) == pytest.approx((0.3, 0.55))
    assert one.won == 4 and one.low is None  # one English query says nothing about others


def test_turning_the_sides_round_turns_the_numbers_round(tmp_path: Path):
    scores = np.random.default_rng(4).random((2, 40)).round(2)
    for policy, of in zip(("none", "corpus"), scores, strict=True):
        write(tmp_path, "T", policy, list(of))
    there, back = only(compared(tmp_path)), only(compared(tmp_path, "corpus", "none"))
    assert back.difference == pytest.approx(-there.difference)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    assert (back.p, back.won, back.lost) == (there.p, there.lost, there.won)


def test_the_order_of_queries_in_a_file_does_not_matter(tmp_path: Path):
    scores = np.random.default_rng(5).random((2, 40)).round(2)
    for folder, step in (("one", 1), ("other", -1)):
        for policy, of in zip(("none", "corpus"), scores, strict=True):
            named = [(f"q{i}", score) for i, score in enumerate(of)]
            write(tmp_path / folder, "T", policy, {("test", "default"): dict(named[::step])})
    assert compared(tmp_path / "one") == compared(tmp_path / "other")


def test_a_query_without_a_number_in_its_name_is_still_text(tmp_path: Path):
    place = ("test", "default")
    write(tmp_path, "T", "none", {place: {"007": 0.1, "7": 0.2, "NA": 0.3}})
    write(tmp_path, "T", "corpus", {place: {"7": 0.2, "NA": 0.3, "007": 0.4}})
    assert only(compared(tmp_path)).tied == 2


def test_draws_are_averaged_query_by_query(tmp_path: Path):
    write(tmp_path, "T", "none", [0.5, 0.5])
    for draw, scores in enumerate(([0.4, 0.9], [0.6, 0.7], [0.5, 0.8])):  # means .5 and .8
        read = {"test/default": {"seed": 42 + draw}}
        write(tmp_path, "T", "corpus", scores, draw=draw, draws=3, contexts=read)
    found = compared(tmp_path)
    assert only(found).difference == pytest.approx(0.15)
    assert (only(found).won, only(found).tied) == (
        1,
        1,
    )  # the mean of .4 .6 .5 is .5, rounded or not
    assert found.b == "tiny · corpus (mean of 3 draws)"


def two_draws(folder: Path, policy: str, first: float, second: float, seed: int) -> None:
    for draw, score in enumerate((first, second)):
        read = {"test/default": {"seed": seed + draw}}
        write(folder, "T", policy, [score, score], draw=draw, draws=2, contexts=read)


@pytest.mark.parametrize(("seed", "ends"), [(42, (0.1, 0.1)), (77, (-0.1, 0.3))])
def test_the_interval_takes_draws_too_and_pairs_those_of_the_same_seed(tmp_path: Path, seed, ends):
    # Each draw of B is .1 above that of A; with other seeds they are no pairs (see above).
    two_draws(tmp_path, "random", 0.1, 0.3, seed=42)
    two_draws(tmp_path, "corpus", 0.2, 0.4, seed=seed)
    one = only(compared(tmp_path, "random"))
    assert one.difference == pytest.approx(0.1)
    assert (one.low, one.high) == pytest.approx(ends)


def test_several_draws_against_one_add_the_spread_of_their_own(tmp_path: Path):
    write(tmp_path, "T", "none", [0.0, 0.0])
    two_draws(tmp_path, "corpus", 0.2, 0.4, seed=42)
    one = only(compared(tmp_path))
    assert (one.difference, one.low, one.high) == pytest.approx((0.3, 0.2, 0.4))


def test_no_difference_at_all_is_zero_and_surely_chance(tmp_path: Path):
    for policy in ("none", "corpus"):
        write(tmp_path, "T", policy, [0.1, 0.2, 0.3])
    one = only(compared(tmp_path))
    assert (one.difference, one.low, one.high, one.p) == (0, 0, 0, 1)


def test_a_seed_repeats_and_another_resamples_otherwise(tmp_path: Path):
    scores = np.random.default_rng(6).random((2, 30)).round(3)
    for policy, of in zip(("none", "corpus"), scores, strict=True):
        write(tmp_path, "T", policy, list(of))
    assert compared(tmp_path, seed=1) == compared(tmp_path, seed=1) != compared(tmp_path, seed=2)


# Several tasks


def three_tasks(folder: Path) -> None:
    for number, task in enumerate(("A", "B", "C")):
        scores = np.random.default_rng(number).random((2, 25)).round(2)
        write(folder, task, "none", list(scores[0]))
        write(folder, task, "corpus", list(np.minimum(1, scores[0] + 0.1 * number * scores[1])))


def test_the_mean_counts_every_task_once_and_p_is_corrected_over_them(tmp_path: Path):
    three_tasks(tmp_path)
    found = compared(tmp_path)
    assert found.mean.task == "mean of 3 tasks"
    expected = np.mean([one.difference for one in found.tasks])
    assert found.mean.difference == pytest.approx(expected)
    assert [one.p_corrected for one in found.tasks] == holm([one.p or 0 for one in found.tasks])
    assert found.mean.p is None and not found.mean.significant


def test_the_interval_of_the_mean_is_that_of_a_bootstrap_within_tasks(tmp_path: Path):
    three_tasks(tmp_path)
    found = compared(tmp_path)
    tables = {
        policy: [
            pd.read_csv(query_scores_path(path))["ndcg_at_10"].to_numpy()
            for draws in find_side("A", policy, tmp_path).tasks.values()
            for path in draws
        ]
        for policy in ("none", "corpus")
    }
    gains = [b - a for a, b in zip(tables["none"], tables["corpus"], strict=True)]

    def mean_of_means(*samples: np.ndarray, axis: int) -> np.ndarray:
        return sum(sample.mean(axis=axis) for sample in samples) / len(samples)

    peer = stats.bootstrap(gains, mean_of_means, method="percentile", rng=rng()).confidence_interval
    width = peer.high - peer.low
    assert (found.mean.low, found.mean.high) == pytest.approx((peer.low, peer.high), abs=width / 15)


def test_a_task_has_the_same_numbers_whatever_else_is_compared(tmp_path: Path):
    three_tasks(tmp_path)
    (alone,) = compared(tmp_path, tasks=["B"]).tasks
    beside = compared(tmp_path).tasks[1]
    assert (alone.task, alone.low, alone.high, alone.p) == ("B", beside.low, beside.high, beside.p)


def test_tasks_that_one_side_lacks_are_named_and_left_out(tmp_path: Path):
    for task in ("A", "B"):
        write(tmp_path, task, "none", [0.1, 0.2])
    write(tmp_path, "A", "corpus", [0.1, 0.3])
    write(tmp_path, "C", "corpus", [0.1, 0.3])
    found = compared(tmp_path)
    assert only(found).task == "A"
    assert found.notes == (
        "Left out, since only A has them: B.",
        "Left out, since only B has them: C.",
    )
    with pytest.raises(DataError, match=r"cannot be compared.*only A has them: B"):
        compared(tmp_path, tasks=["B"])
    with pytest.raises(ConfigError, match="Neither A nor B has results of the task 'D'"):
        compared(tmp_path, tasks=["D"])


def test_without_scores_of_queries_there_is_a_difference_and_no_more(tmp_path: Path):
    write(tmp_path, "STS", "none", None, score=0.5, main_measure="cosine_spearman")
    write(tmp_path, "STS", "corpus", None, score=0.6, main_measure="cosine_spearman")
    write(tmp_path, "T", "none", [0.1, 0.2])
    write(tmp_path, "T", "corpus", [0.2, 0.3])
    found = compared(tmp_path)
    sts, searched = found.tasks
    assert sts.difference == pytest.approx(0.1)
    assert (sts.low, sts.p, sts.p_corrected, sts.won) == (None, None, None, None)
    assert searched.p is not None and searched.p_corrected == searched.p  # corrected for one task
    assert found.mean.difference == pytest.approx(0.1) and found.mean.low is None
    assert found.notes == ("No scores of queries to resample, so no interval: STS.",)


def test_scores_of_queries_on_one_side_alone_are_not_used(tmp_path: Path):
    write(tmp_path, "T", "none", None, score=0.5)
    write(tmp_path, "T", "corpus", [0.5, 0.9])
    assert only(compared(tmp_path)).difference == pytest.approx(0.2)
    assert only(compared(tmp_path)).p is None


def test_an_undefined_score_is_left_out_and_said(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1, 0.2])
    write(tmp_path, "T", "corpus", [0.2, 0.3])
    write(tmp_path, "U", "none", None, score=None)
    write(tmp_path, "U", "corpus", None, score=0.6)
    found = compared(tmp_path)
    assert only(found).task == "T" and "a score is undefined: U" in found.notes[0]


def test_another_measure_is_asked_for_by_name(tmp_path: Path):
    for policy, scores in (("none", [0.1, 0.2]), ("corpus", [0.1, 0.4])):
        path = query_scores_path(write(tmp_path, "T", policy, scores, main_measure="map_at_10"))
        table = pd.read_csv(path)
        write_atomically(path, table.assign(map_at_10=0.5).to_csv(index=False))
    assert only(compared(tmp_path)).difference == 0
    assert only(compared(tmp_path, measure="ndcg_at_10")).difference == pytest.approx(0.1)
    with pytest.raises(DataError, match=r"no measure 'ndgc_at_10'.*'ndcg_at_10'.*--measure"):
        compared(tmp_path, measure="ndgc_at_10")


# What is refused

LISTS = {"retriever": "bm25", "depth": 100, "sha256": "a" * 64, "titles": True}


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ({}, {"task_revision": "sha256-1"}, "data revision differs: sha256-0 in A, sha256-1 in B"),
        ({"data_hash": "1"}, {"data_hash": "2"}, "data hash differs: 1 in A, 2 in B"),
        ({}, {"candidates": LISTS}, r"candidates differs: none \(the whole .*\) in A, depth 100"),
        (
            {"candidates": LISTS},
            {"candidates": LISTS | {"depth": 50}},
            "candidates differs: depth 100 .* depth 50 .*same candidates",
        ),
        (
            {"candidates": LISTS},
            {"candidates": LISTS | {"sha256": "b" * 64}},
            "candidates differs: .*aaaaaaaaaaaa.*bbbbbbbbbbbb",
        ),
        (
            {"candidates": LISTS},
            {"candidates": LISTS | {"titles": False}},
            "candidates differs: .*with titles.*without titles",
        ),
        ({}, {"main_measure": "map_at_10"}, "main measure differs: .*name one .* with --measure"),
        ({}, {"protocol": "mteb"}, "protocol differs: paper in A, mteb in B"),
    ],
)
def test_scores_of_other_things_are_refused(tmp_path: Path, a, b, reason):
    write(tmp_path, "T", "none", [0.1, 0.2], **a)
    write(tmp_path, "T", "corpus", [0.1, 0.3], **b)
    with pytest.raises(
        DataError, match=f"^T cannot be compared, since its {'.*'}{reason}"
    ) as error:
        compared(tmp_path)
    assert "\n" not in str(error.value)


def test_the_same_lists_of_another_name_are_comparable(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1, 0.2], candidates=LISTS)
    write(tmp_path, "T", "corpus", [0.1, 0.3], candidates=LISTS | {"retriever": "a file"})
    assert only(compared(tmp_path)).difference == pytest.approx(0.05)


def test_another_main_measure_is_no_matter_where_one_is_asked_for(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1, 0.2])
    write(tmp_path, "T", "corpus", [0.1, 0.3], main_measure="map_at_10")
    assert only(compared(tmp_path, measure="ndcg_at_10")).won == 1


def test_other_splits_are_refused(tmp_path: Path):
    write(tmp_path, "T", "none", {("test", "default"): {"q": 0.1}})
    write(tmp_path, "T", "corpus", {("dev", "default"): {"q": 0.1}})
    with pytest.raises(DataError, match="splits and subsets differs: test/default in A, dev/"):
        compared(tmp_path)


def test_other_queries_are_refused_and_named(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1, 0.2, 0.3])
    write(tmp_path, "T", "corpus", [0.1, 0.2])
    with pytest.raises(DataError, match=r"queries differ: 1 of 3 have no score in B \(q2\)"):
        compared(tmp_path)
    with pytest.raises(DataError, match=r"no score in A \(q2\)"):
        compared(tmp_path, "corpus", "none")


def test_draws_of_other_queries_are_refused(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1, 0.2])
    for draw, scores in enumerate(([0.1, 0.2], [0.1])):
        read = {"test/default": {"seed": draw}}
        write(tmp_path, "T", "corpus", scores, draw=draw, contexts=read)
    with pytest.raises(DataError, match=r"queries differ: 1 of 2 have no score in B \(q1\)"):
        compared(tmp_path)


def test_draws_of_other_data_are_refused(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1])
    write(tmp_path, "T", "corpus", [0.1])
    write(tmp_path, "T", "corpus", [0.1], draw=1, task_revision="sha256-1")
    with pytest.raises(DataError, match="sha256-0 in A, sha256-0 and sha256-1 in B"):
        compared(tmp_path)


def test_results_that_are_not_draws_of_one_another_are_refused(tmp_path: Path):
    write(tmp_path, "T", "none", [0.1])
    path = write(tmp_path, "T", "corpus", [0.1])
    other = path.parent.with_name("of-another-choice") / path.name
    write_atomically(other, path.read_text())
    with pytest.raises(DataError, match="B has 2 results of it that are not draws"):
        compared(tmp_path)


@pytest.mark.parametrize("damage", ["0.9", "", "what"])
def test_scores_of_queries_that_do_not_give_the_score_are_refused(tmp_path: Path, damage):
    write(tmp_path, "T", "corpus", [0.1, 0.2])
    path = query_scores_path(write(tmp_path, "T", "none", [0.1, 0.2]))
    path.write_text(path.read_text().replace("0.1", damage))
    with pytest.raises(DataError, match=r"T\.queries\.csv does not give the score .*delete both"):
        compared(tmp_path)


# Which run a word means


def two_models(folder: Path) -> None:
    for model in ("bm25", "tiny"):
        for policy in ("corpus", "none"):
            write(folder, "T", policy, [0.1, 0.2], model=model)
    write(folder, "T", "none", [0.3, 0.2], model="minilm")


@pytest.mark.parametrize(
    ("asked", "choices", "run"),
    [
        ("bm25@corpus", {}, "bm25 · corpus"),
        ("corpus", {"model": "bm25"}, "bm25 · corpus"),
        ("bm25", {"context": "none"}, "bm25 · none"),
        ("minilm", {}, "minilm · none"),
        ("minilm", {"context": "corpus"}, "minilm · none"),  # it reads nothing
        ("bm25", {"context": "none", "model": "tiny"}, "bm25 · none"),  # --model is for the other
        ("FOLDER", {"context": "corpus", "model": "tiny"}, "tiny · corpus"),
    ],
)
def test_a_word_means_one_run(tmp_path: Path, asked, choices, run):
    two_models(tmp_path)
    asked = str(tmp_path) if asked == "FOLDER" else asked
    assert find_side("A", asked, tmp_path, **choices).run == run


@pytest.mark.parametrize(
    ("asked", "choices", "answer"),
    [
        ("corpus", {}, "A .* could be several models: bm25, tiny; say which with --model"),
        ("bm25", {}, "several contexts: corpus, none; say which with --context"),
        ("FOLDER", {"model": "tiny"}, "several contexts: .*--context"),
        ("FOLDER", {"context": "corpus"}, "several models: .*--model"),
        ("crpus", {}, "neither a results folder nor .* Did you mean 'corpus'.*MODEL@CONTEXT"),
        ("corpus", {"model": "bm52"}, "no results of the model 'bm52'. Did you mean 'bm25'"),
        ("bm25", {"context": "random"}, "no results of the context 'random'. It has corpus, none"),
    ],
)
def test_a_word_that_means_several_or_none_says_how_to_go_on(tmp_path, asked, choices, answer):
    two_models(tmp_path)
    asked = str(tmp_path) if asked == "FOLDER" else asked
    with pytest.raises(ConfigError, match=answer) as error:
        find_side("A", asked, tmp_path, **choices)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"model_revision": "2"}, "several revisions of its model: 1, 2"),
        ({"settings": {"precision": "bfloat16"}}, "several settings: .*bfloat16.*, {}"),
        ({"protocol": "mteb"}, "several protocols: mteb, paper"),
    ],
)
def test_runs_that_no_option_tells_apart_belong_in_two_folders(tmp_path: Path, changes, answer):
    write(tmp_path, "T", "corpus", [0.1])
    write(tmp_path, "T", "corpus", [0.1], **changes)
    with pytest.raises(ConfigError, match=f"{answer}; compare results folders"):
        find_side("B", "corpus", tmp_path)


def test_runs_of_several_sizes_of_context_are_told_apart_by_their_size(tmp_path: Path):
    for size, score in ((8, 0.1), (64, 0.3), (None, 0.4)):
        write(tmp_path, "T", "corpus", [score], context_size=size)
    write(tmp_path, "T", "none", [0.2], context_size=0)
    with pytest.raises(ConfigError, match=r"several sizes of context: 64, 8, all; say .* --size"):
        find_side("A", "corpus", tmp_path)
    with pytest.raises(ConfigError, match=r"no results of the size 9\. It has "):
        find_side("A", "corpus", tmp_path, size=9)
    for asked, score in (("corpus", 0.3), ("none", 0.2)):  # what reads nothing has no size
        ((record,),) = (d.values() for d in find_side("A", asked, tmp_path, size=64).tasks.values())
        assert record.scores[0].main == pytest.approx(score)


def test_two_folders_of_one_run_are_told_apart_by_their_names(tmp_path: Path):
    for folder, score in (("old", 0.1), ("new", 0.3)):
        write(tmp_path / folder, "T", "corpus", [score, 0.2])
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    found = compared(tmp_path, old, new)
    assert (found.a, found.b) == (f"{old}: tiny · corpus", f"{new}: tiny · corpus")
    assert only(found).difference == pytest.approx(0.1)


def test_a_run_is_not_compared_with_itself(tmp_path: Path):
    write(tmp_path, "T", "corpus", [0.1, 0.2])
    for b in ("corpus", "tiny@corpus", str(tmp_path)):
        with pytest.raises(ConfigError, match="are the same results: tiny · corpus"):
            compared(tmp_path, "tiny", b)


def test_no_results_say_what_to_run(tmp_path: Path):
    with pytest.raises(DataError, match="holds no results; run `cde-eval mteb --output"):
        find_side("A", "corpus", tmp_path / "nowhere")
