import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from cde_core.errors import ConfigError
from cde_eval.report.figures import score_by_policy
from cde_eval.report.style import COLOURS
from tests.cde_eval.tiny_records import record

RECORDS = [
    record("A", 0.5, draw=0),
    record("A", 0.7, draw=1),
    record("B", 0.4),
    record("A", 0.3, policy="none"),
    record("B", 0.2, policy="none"),
    record("A", 0.35, policy="none", model="minilm"),
    record("B", 0.25, policy="none", model="minilm"),
]


def marks(axes: Axes) -> dict[str, ErrorbarContainer]:
    return {
        container.get_label(): container
        for container in axes.containers
        if isinstance(container, ErrorbarContainer)
    }


def spans(container: ErrorbarContainer) -> list[tuple[float, float]]:
    """Left and right end of every horizontal bar."""
    return [
        tuple(sorted(float(x) for x, _ in path)) for path in container.lines[2][0].get_segments()
    ]


def test_a_mark_stands_at_the_mean_and_its_bar_spans_the_draws():
    (axes,) = score_by_policy(RECORDS).axes
    corpus = marks(axes)["context: corpus"]
    assert corpus.lines[0].get_xdata() == pytest.approx([0.6, 0.4])  # (0.5 + 0.7) / 2, and B
    assert spans(corpus) == [pytest.approx((0.5, 0.7)), pytest.approx((0.4, 0.4))]
    assert marks(axes)["context: none"].lines[0].get_xdata() == pytest.approx([0.3, 0.2])


def test_tasks_are_read_from_top_to_bottom():
    (axes,) = score_by_policy(RECORDS).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["B", "A"]  # 0 is at the foot
    corpus_a, corpus_b = marks(axes)["context: corpus"].lines[0].get_ydata()
    assert round(corpus_a) == 1 and round(corpus_b) == 0


def test_policies_of_one_task_do_not_hide_one_another():
    (axes,) = score_by_policy([*RECORDS, record("A", 0.6, policy="random")]).axes
    heights = [float(mark.lines[0].get_ydata()[0]) for mark in marks(axes).values()]
    assert len(set(heights)) == 3 and max(heights) - min(heights) < 0.5


def test_a_context_free_model_is_a_tick_and_not_a_panel():
    figure = score_by_policy(RECORDS)
    (axes,) = figure.axes
    assert axes.get_title("left") == "tiny"
    (ticks,) = (c for c in axes.collections if c.get_label() == "minilm")
    np.testing.assert_allclose(ticks.get_offsets(), [[0.35, 1], [0.25, 0]])


def test_every_contextual_model_has_a_panel():
    figure = score_by_policy([*RECORDS, record("A", 0.1, model="bm25", context_size=None)])
    assert [axes.get_title("left") for axes in figure.axes] == ["tiny", "bm25"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(labels) == ["context: corpus", "context: none", "minilm"]  # each once


def test_the_axis_names_the_measure():
    assert score_by_policy(RECORDS).get_supxlabel() == "nDCG@10"


def test_context_free_models_are_told_apart():
    figure = score_by_policy([*RECORDS, record("A", 0.1, model="other", context_size=0)])
    (axes,) = figure.axes
    colours = {c.get_label(): tuple(c.get_edgecolor()[0]) for c in axes.collections}
    assert colours["minilm"] != colours["other"]


def test_policies_without_a_colour_of_their_own_are_told_apart():
    policies = ["corpus", "task:A", "task:B", "file:c"]
    (axes,) = score_by_policy([record("A", policy=policy) for policy in policies]).axes
    colours = [mark.lines[0].get_color() for mark in marks(axes).values()]
    assert len(set(colours)) == 4 and colours[0] == COLOURS["corpus"]


def test_draws_of_one_score_have_a_bar_of_no_length():
    # The mean of n equal floats is not always that float: their sum is rounded on the way.
    scores = np.random.default_rng(0).random(50)
    for score, draws in itertools.product(scores, (3, 6, 7)):
        same: list[Any] = [record("A", float(score), draw=number) for number in range(draws)]
        (axes,) = score_by_policy(same).axes
        (span,) = spans(marks(axes)["context: corpus"])
        assert span[1] - span[0] < 1e-12


def test_an_undefined_score_leaves_a_gap():
    (axes,) = score_by_policy([record("A", None), record("B", 0.5)]).axes
    x = marks(axes)["context: corpus"].lines[0].get_xdata()
    assert np.isnan(x[0]) and x[1] == 0.5


def test_only_context_free_models_share_one_panel():
    figure = score_by_policy([record("A", policy="none", model="minilm")])
    assert len(figure.axes) == 1


def test_results_of_two_protocols_share_no_figure():
    with pytest.raises(ConfigError, match="not comparable"):
        score_by_policy([record("A"), record("A", protocol="mteb")])
