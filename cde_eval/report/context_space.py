"""The same documents under different contexts: rows of the probe `context-space` in, figure out.

    rows ──▶ newest ──▶ points ──▶ movement_figure     a panel per model, a colour per document
                   └──▶ numbers ─▶ movement_table

Source: Morris and Rush (2024), figure 15, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.probe_names import ALL_CONTEXTS, CONTEXT_SPACE
from cde_eval.report.probe_rows import context_label, model_label, newest, with_labels
from cde_eval.report.style import SERIES, context_markers, look, styled_figure

COMMAND = "cde-eval context-space --model path/to/model centred:minilm"

MOST_BESIDE = 2


@look()
def movement_figure(rows: pd.DataFrame) -> Figure:
    """Documents along the first two components; a point per context, joined to its centre."""
    points = rows[rows["part"] == "points"]
    groups = list(points.groupby(["model", "task"], sort=False))
    beside = min(MOST_BESIDE, len(groups))
    above = -(-len(groups) // beside)
    figure, grid = styled_figure(3.4 * beside, 3.0 * above + 0.3, rows=above, columns=beside)
    for spare in grid.flat[len(groups) :]:
        spare.set_axis_off()
    markers = context_markers(points["context"])
    for axes, ((model, task), group) in zip(grid.flat, groups, strict=False):
        _documents(axes, group, markers)
        axes.set_title(f"{model} on {task}")
    figure.legend(
        handles=[
            Line2D([], [], color="0.4", marker=marker, linestyle="none", label=context_label(one))
            for one, marker in markers.items()
        ],
        loc="outside upper left",
        ncols=len(markers),
        handletextpad=0.3,
    )
    return figure


def movement_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model, task and kind of context: how far documents move, and stay themselves."""
    numbers = rows[rows["part"] == "numbers"]
    keys = ["model", "task", "context", "compared"]
    table = []
    for (model, task, context, count), group in numbers.groupby(keys, sort=False):
        value = group.set_index("measure")
        table.append(
            {
                "model": model_label(model),
                "task": task,
                "context": f"{'all' if context == ALL_CONTEXTS else context} ({count:.0f})",
                "to itself": _text(value.loc["spread"]),
                "to others": _text(value.loc["distance"]),
                "ratio": f"{value.loc['spread / distance', 'value']:.4f}",
                "nearest to itself": f"{100 * value.loc['closer', 'value']:.1f} %",
            }
        )
    return pd.DataFrame(table)


def _documents(axes: Axes, points: pd.DataFrame, markers: dict[str, str]) -> None:
    for document, group in points.groupby("document", sort=True):
        colour = SERIES[int(document) % len(SERIES)]
        hollow = int(document) >= len(SERIES)  # colours come round; then points are hollow
        centre = group[["x", "y"]].mean()
        for x, y in zip(group["x"], group["y"], strict=True):
            axes.plot([centre["x"], x], [centre["y"], y], color=colour, linewidth=0.4, alpha=0.4)
        for context, of_context in group.groupby("context", sort=False):
            axes.plot(
                of_context["x"],
                of_context["y"],
                linestyle="none",
                marker=markers[context],
                markersize=3.5,
                markeredgewidth=0.7,
                color=colour,
                markerfacecolor="white" if hollow else colour,
                alpha=0.85,
            )
    shares = points.iloc[0]
    axes.set_xlabel(f"first component ({100 * shares['x_share']:.0f} % of variance)")
    axes.set_ylabel(f"second ({100 * shares['y_share']:.0f} %)")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])


def _text(row: Any) -> str:
    if pd.isna(row["low"]):
        return f"{row['value']:.4f}"
    return f"{row['value']:.4f} [{row['low']:.4f}, {row['high']:.4f}]"


def _rows(results: Results) -> pd.DataFrame:
    return with_labels(newest(results.probe(CONTEXT_SPACE)))


def _make_figure(results: Results) -> Figure | None:
    rows = _rows(results)
    return None if rows.empty else movement_figure(rows)


def _make_table(results: Results) -> pd.DataFrame | None:
    rows = _rows(results)
    return None if rows.empty else movement_table(rows)


def _note(results: Results) -> str:
    """What the picture says of all documents, those that are not drawn too."""
    rows = _rows(results)
    if rows.empty:
        return ""
    numbers = rows[(rows["part"] == "numbers") & (rows["context"] == ALL_CONTEXTS)]
    said = []
    for (model, task), group in numbers.groupby(["model", "task"], sort=False):
        value = group.set_index("measure")["value"]
        said.append(
            f"{model} on {task}: {group['documents'].iloc[0]:.0f} documents are "
            f"{value['spread']:.4f} (cosine distance) from themselves in another context and "
            f"{value['distance']:.4f} from one another in the same; {100 * value['closer']:.1f} % "
            "of the time a document is nearest to itself."
        )
    return "\n".join(said)


EXHIBITS = (
    Exhibit(
        name="context-space",
        section="geometry",
        title="The same documents in different contexts",
        caption="Each colour is a document, each point its vector in another context, and each "
        "shape a kind of context, along the two directions in which all of them vary most. "
        "The farther its points lie apart, the more a document moves with its context.",
        source="CDE paper, figure 15",
        command=COMMAND,
        make=_make_figure,
        note=_note,
    ),
    Exhibit(
        name="context-space-numbers",
        section="geometry",
        title="How far documents move with their context",
        caption="Cosine distance of a document to itself in another context and to others in the "
        "same one, with 95 % intervals over documents, and how often it is nearest to itself.",
        source="CDE paper, figure 15",
        command=COMMAND,
        make=_make_table,
    ),
)
