from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cde_eval.report.style import (
    COLOURS,
    COLUMN,
    MARKERS,
    PAGE,
    SERIES,
    context_colours,
    context_markers,
    label_line,
    look,
    save_figure,
    series_colours,
    styled_figure,
)


@look()
def drawn() -> Figure:
    figure, axes = styled_figure(PAGE, 2.0, columns=2)
    axes[0, 0].plot([1, 2, 3], [3, 1, 2], label="a line")
    axes[0, 0].legend()
    label_line(axes[0, 1], 0.5, 0.5, "direct", SERIES[1])
    return figure


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path):
    first, second = (save_figure(drawn(), "one", tmp_path / name) for name in ("a", "b"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert [path.name for path in first] == ["one.png", "one.svg"]


def test_files_say_nothing_of_the_day_or_of_versions(tmp_path: Path):
    png, svg = save_figure(drawn(), "one", tmp_path)
    assert "dc:date" not in svg.read_text()
    assert b"tEXtSoftware" not in png.read_bytes()


def test_the_look_ends_where_its_block_ends():
    before = mpl.rcParams["font.size"]
    with look():
        assert mpl.rcParams["font.size"] == 8
    drawn()
    assert mpl.rcParams["font.size"] == before


def test_axes_have_no_box_and_small_print():
    figure, axes = styled_figure(COLUMN, 2.0, rows=2)
    assert axes.shape == (2, 1) and tuple(figure.get_size_inches()) == (COLUMN, 2.0)
    assert not axes[0, 0].spines["top"].get_visible()
    assert axes[0, 0].xaxis.label.get_fontsize() == 8


def test_every_context_has_a_colour_and_a_marker():
    assert set(COLOURS) == set(MARKERS) and len(set(MARKERS.values())) == len(MARKERS)
    colours = context_colours(["corpus", "task:A", "none", "task:B"])
    assert colours["corpus"] == COLOURS["corpus"] and colours["none"] == COLOURS["none"]
    assert len(set(colours.values())) == 4


def test_models_keep_their_colours_in_order():
    assert series_colours(["a", "b", "a"]) == {"a": SERIES[0], "b": SERIES[1]}
    assert len(series_colours(map(str, range(20)))) == 20


# What cones see, for the two common kinds of colour blindness (Machado et al., 2009, severity 1).
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
              [-0.003882, -0.048116, 1.051998]]  # fmt: skip
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881]]  # fmt: skip


@pytest.mark.parametrize("matrix", [np.eye(3), PROTANOPIA, DEUTERANOPIA])
def test_contexts_are_told_apart_by_everyone(matrix: list[list[float]]):
    seen = [np.asarray(matrix) @ to_rgb(colour) for colour in COLOURS.values()]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(distances) > 0.2


def test_every_context_has_a_marker_and_no_two_the_same():
    found = context_markers(["corpus", "task:A", "none", "task:B", "task:A"])
    assert list(found) == ["corpus", "task:A", "none", "task:B"]
    assert found["corpus"] == MARKERS["corpus"] and len(set(found.values())) == 4
