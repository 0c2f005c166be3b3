"""Score against the size of the context, and against how finely its documents are cut.

    records ──▶ points (context_points.py) ──▶ a line per model, intervals over draws as bars

Source: Morris and Rush (2024), figures 16 and 18, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cde_eval.compare import Difference
from cde_eval.report.context_points import (
    gain_of_reading,
    size_curves,
    size_text,
    token_curves,
)
from cde_eval.report.evaluations import evaluations
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.style import COLUMN, PAGE, look, series_colours, styled_figure


@look()
def size_figure(points: pd.DataFrame) -> Figure:
    """Score against documents read, a step to the right a doubling; 0 and all stand apart.

    Args:
        points: From `size_curves`.
    """
    finite = points.loc[points["x"].between(1, 1e12), "x"]
    first, last = math.log2(finite.min()), math.log2(finite.max())
    apart = max(1.2, 0.2 * (last - first))

    def place(size: float) -> float:
        if size == 0:
            return first - apart
        return last + apart if math.isinf(size) else math.log2(size)

    figure, axes = _lines(points, place)
    shown = sorted(points["x"].unique())
    places = [place(size) for size in shown]
    axes.set_xticks(places, labels=_apart([size_text(size) for size in shown], places))
    axes.set_xlabel("documents that the model has read")
    for gap in [first - apart / 2] * (0 in shown) + [last + apart / 2] * (math.inf in shown):
        axes.axvline(gap, color="0.75", linewidth=0.8, linestyle=(0, (1, 2)))
    return figure


def _apart(labels: Sequence[str], places: Sequence[float]) -> list[str]:
    """Labels with room to their left; those without are left out, and their ticks stay."""
    room = 0.085 * (places[-1] - places[0])
    found: list[str] = []
    last = -math.inf
    for label, place in zip(labels, places, strict=True):
        found.append(label if place - last >= room else "")
        last = place if found[-1] else last
    return found


@look()
def token_figure(points: pd.DataFrame) -> Figure:
    """Score against vectors per document, with the documents that then fill the context.

    Args:
        points: From `token_curves`.
    """
    figure, axes = _lines(points, math.log2)
    shown = sorted(points["x"].unique())
    axes.set_xticks([math.log2(count) for count in shown], labels=[size_text(x) for x in shown])
    axes.set_xlabel("vectors per document (fewer documents the more there are)")
    counts = points.drop_duplicates(["x", "documents"]).set_index("x")["documents"]
    if counts.index.is_unique:  # every model has as many vectors in all
        labels = [f"{size_text(x)}\n× {size_text(counts[x])}" for x in shown]
        axes.set_xticks([math.log2(count) for count in shown], labels=labels)
        axes.set_xlabel("vectors per document × documents read")
    return figure


def _lines(points: pd.DataFrame, place: Callable[[float], float]) -> tuple[Figure, Axes]:
    """A line per model, dashed for other documents than the corpus's, its name at its end."""
    several = points["line"].nunique() > 1
    figure, grid = styled_figure(0.7 * PAGE if several else COLUMN + 0.6, 2.7)
    axes: Axes = grid[0, 0]
    colours = series_colours(points["line"])
    ends = []
    for (line, policy), rows in points.groupby(["line", "policy"], sort=False):
        rows = rows.sort_values("x")
        colour = colours[line]
        x, y = rows["x"].map(place).to_numpy(dtype=float), 100 * rows["mean"].to_numpy(dtype=float)
        bars = 100 * (rows["high"] - rows["mean"]).fillna(0).to_numpy(dtype=float)
        style = "-" if policy == "corpus" else (0, (4, 2))
        joined = rows["x"].between(1, 1e12).to_numpy()
        axes.plot(x[joined], y[joined], color=colour, linestyle=style)
        axes.plot(x[~joined], y[~joined], "o", color=colour, markerfacecolor="white")
        axes.errorbar(x[joined], y[joined], bars[joined], fmt="o", color=colour, linewidth=1)
        if rows["x"].iloc[0] == 0:
            axes.axhline(y[0], color=colour, linewidth=0.7, alpha=0.5, zorder=0)
        name = f"{line}" if policy == "corpus" else f"{line} · {policy}"
        if points["tasks"].nunique() > 1:  # means of other tasks are not to be compared
            name += f" ({_counted(rows['tasks'])})"
        ends.append((x[-1], y[-1], name, colour))
    axes.set_ylabel(f"nDCG@10 × 100, mean of {_counted(points['tasks'])}")
    axes.margins(y=0.12)
    _label_ends(axes, ends)
    return figure, axes


def _label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the ends of lines, moved apart where two would cover one another."""
    low, high = axes.get_ylim()
    apart = (high - low) * 0.07
    right = max(x for x, _, _, _ in ends)
    left = axes.get_xlim()[0]
    axes.set_xlim(left, right + 0.02 * (right - left))
    height = -math.inf
    for _, y, text, colour in sorted(ends, key=lambda end: end[1]):
        height = max(y, height + apart)
        axes.annotate(
            text,
            (right, height),
            (6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=7.5,
            annotation_clip=False,
        )


def _counted(tasks: pd.Series[int]) -> str:
    few, many = int(tasks.min()), int(tasks.max())
    return f"{many} task{'s' * (many > 1)}" if few == many else f"{few} to {many} tasks"


def _sizes(results: Results) -> Figure | None:
    points = size_curves(evaluations(results.records_by_path))
    return None if points.empty else size_figure(points)


def _size_note(results: Results) -> str:
    records = results.records_by_path
    frame = evaluations(records)
    points = size_curves(frame)
    if points.empty:
        return ""
    said = [
        f"{line}: {_signed(one.difference)} points from {size_text(few)} to {size_text(many)} "
        f"documents{_interval(one)}"
        for line, few, many, one in gain_of_reading(frame, records)
    ]
    drawn = points.loc[points["low"].notna(), "draws"]
    few, many = (int(drawn.min()), int(drawn.max())) if len(drawn) else (0, 0)
    draws = f" Bars are over {few if few == many else f'{few} to {many}'} draws." * bool(many)
    read = frame[frame["repeats"] & frame["policy"].eq("corpus") & frame["tokens"].eq(0)]
    short = sorted(read["task"].unique(), key=str.lower)
    twice = f" Sizes above the corpus read some documents twice: {', '.join(short)}." * bool(short)
    return f"{'; '.join(said)}.{draws}{twice}" if said else f"{draws}{twice}".strip()


def _tokens(results: Results) -> Figure | None:
    points = token_curves(evaluations(results.records_by_path))
    return None if points.empty else token_figure(points)


def _token_note(results: Results) -> str:
    points = token_curves(evaluations(results.records_by_path))
    said = []
    for line, rows in points.groupby("line", sort=False):
        low, high = (rows.loc[one] for one in (rows["mean"].idxmin(), rows["mean"].idxmax()))
        lowest, highest = (
            f"{100 * one['mean']:.2f} with {size_text(one['x'])} × {size_text(one['documents'])}"
            for one in (low, high)
        )
        said.append(f"{line}: from {lowest} to {highest}")
    return f"{'; '.join(said)}." if said else ""


def _interval(one: Difference) -> str:
    if one.low is None or one.high is None:
        return ""
    return f" ({_signed(one.low)} to {_signed(one.high)} over the queries)"


def _signed(score: float) -> str:
    return f"{100 * score:+.2f}".replace("-", "−")


EXHIBITS = (
    Exhibit(
        name="figure-16-context-size",
        section="context",
        title="How many documents have to be read",
        caption="nDCG@10, mean over tasks, against the number of documents of the task's own "
        "corpus that the model has read first; 0 is no context (and the thin line). Bars are 95 % "
        "intervals over draws of the sample. A dashed line, where there is one, is of a model that "
        "has read documents of other domains.",
        source="CDE paper, figure 16",
        command="cde-eval context-size --model centred:minilm path/to/checkpoint --draws 5",
        make=_sizes,
        note=_size_note,
    ),
    Exhibit(
        name="figure-18-tokens-per-document",
        section="context",
        title="Many documents in brief, or few in detail",
        caption="nDCG@10, mean over tasks, when the same number of context vectors holds fewer "
        "documents, each cut into more spans. Bars are 95 % intervals over draws. The checkpoint "
        "is as it was trained; only what it reads is cut otherwise.",
        source="CDE paper, figure 18",
        command="cde-eval tokens-per-document --model path/to/checkpoint --draws 5",
        make=_tokens,
        note=_token_note,
    ),
)
