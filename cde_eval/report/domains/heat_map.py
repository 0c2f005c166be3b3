"""The matrices of tasks and domains as a picture: a panel per model, the best cells framed.

Source: Morris and Rush (2024), figure 7, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cde_eval.report.domains.advantage import advantage_in_words
from cde_eval.report.domains.matrix import Matrix, matrices
from cde_eval.report.evaluations import evaluations
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.style import PAGE, look, styled_figure

DARKEST = 5.0
"""Points below the row's best at which a cell is as pale as it gets."""

BESIDE = 6
"""Tasks up to which two panels stand beside each other."""


@look()
def domain_figure(found: dict[str, Matrix]) -> Figure:
    """A panel per model: nDCG@10 of each task (rows) with the documents of each (columns).

    The darker a cell, the nearer to its row's best; cells within one point of it have a frame.

    Args:
        found: From `matrices`.
    """
    most = max(len(matrix.scores) for matrix in found.values())
    beside = 2 if most <= BESIDE and len(found) > 1 else 1
    rows = -(-len(found) // beside)
    width = PAGE if beside > 1 or most > BESIDE else 0.62 * PAGE
    figure, grid = styled_figure(width, rows * (1.5 + 0.3 * most), rows=rows, columns=beside)
    panels = list(found.items())
    for place, axes in enumerate(grid.flat):
        if place < len(panels):
            name, matrix = panels[place]
            left = place % beside == 0 or not matrix.scores.index.equals(
                panels[place - 1][1].scores.index
            )
            _panel(axes, name, matrix, named=left)
        else:
            axes.set_visible(False)
    figure.supxlabel("whose documents were read", size=8)
    return figure


def _panel(axes: Axes, name: str, matrix: Matrix, *, named: bool) -> None:
    scores = 100 * matrix.scores
    lost = scores.rsub(scores.max(axis=1), axis=0).to_numpy(dtype=float)
    axes.imshow(lost, cmap="Blues_r", norm=Normalize(-2.5, DARKEST), aspect="auto")
    tasks = list(scores.index)
    places = range(len(tasks))
    axes.set_xticks(places, labels=tasks, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, labels=tasks if named else [""] * len(tasks))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("task" if named else "")
    axes.set_title(name)
    for row, column in np.ndindex(*scores.shape):
        value = float(scores.iloc[row, column])
        if np.isnan(value):
            continue
        near = bool(matrix.marked.iloc[row, column])
        style: dict[str, Any] = {"color": "white" if lost[row, column] < 1.2 else "0.15"}
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", size=7, **style)
        if near:
            axes.add_patch(_frame(row, column))


def _frame(row: int, column: int) -> Rectangle:
    return Rectangle((column - 0.45, row - 0.43), 0.9, 0.86, fill=False, edgecolor="black", lw=1.1)


def _make(results: Results) -> Figure | None:
    found = matrices(evaluations(results.records_by_path))
    return domain_figure(found) if found else None


def _note(results: Results) -> str:
    found = matrices(evaluations(results.records_by_path))
    if not found:
        return ""
    said = ["A task's own documents against the mean of the others', with 95 % intervals:"]
    said += [f"{name}: {advantage_in_words(matrix)}" for name, matrix in found.items()]
    few = sorted({domain for matrix in found.values() for domain in matrix.repeated})
    if few:
        said.append(
            f"{', '.join(few)} {'has' if len(few) == 1 else 'have'} fewer documents than are "
            "read, so some were read twice."
        )
    return "\n".join(said)


EXHIBIT = Exhibit(
    name="figure-7-domains",
    section="context",
    title="Whose documents help",
    caption="nDCG@10 × 100 of each task (rows) when the model has read documents of each "
    "(columns); on the diagonal they are the task's own. The darker a cell, the nearer to its "
    "row's best; cells within one point of that are framed.",
    source="CDE paper, figure 7",
    command="cde-eval domains --model centred:minilm path/to/checkpoint --data my-corpora",
    make=_make,
    note=_note,
)
