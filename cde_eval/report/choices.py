"""What the choices of a sweep are worth: a row per run, a marker per context.

    sweeps (DIR/CELL/result.json) ──▶ those that vary one model's training ──▶ choices_figure

Sweeps over architectures and batches are Table 1 of the paper (published.py); what is left varies
one model: figures 2, 3, 4, 9, 14 and 17, whose grids need a cluster of machines, one choice at a
time.

Source: Morris and Rush (2024), https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.probe_rows import context_label
from cde_eval.report.style import (
    PAGE,
    context_colours,
    context_markers,
    look,
    styled_figure,
)

CHOICES = {
    "clusters.size": "pairs per cluster",
    "batches.size": "pairs per batch",
    "batches.packing": "order of clusters",
    "filter.surrogate": "filter",
    "model.first_layers": "layers of the first stage",
    "model.attention": "attention",
    "model.tokens_per_document": "vectors per document",
    "batches.hard_negatives": "hard negatives",
}
"""What may be chosen, in plain words; whatever else a cell sets goes with one of these."""

MEAN = "mean/"
"""How the mean over tasks begins in the scores of a run; the context follows."""


def choices_table(sweeps: pd.DataFrame) -> pd.DataFrame:
    """A row per run and context: sweep, choice, value, context, score (mean over tasks and seeds).

    Choices come in the order of `CHOICES`, values as they rise.

    Args:
        sweeps: As `Results.sweeps`.
    """
    rows: list[dict[str, Any]] = []
    for run in sweeps.to_dict("records"):
        chosen = {str(name): run[name] for name in CHOICES if not _absent(run.get(name))}
        if not chosen or not _absent(run.get("model.kind")):
            continue
        for name, score in run.items():
            if str(name).startswith(MEAN) and not _absent(score):
                context = str(name).removeprefix(MEAN)
                rows.append({"sweep": run["sweep"], **_named(chosen), "context": context,
                             "score": float(score)})  # fmt: skip
    found = pd.DataFrame(rows, columns=["sweep", "choice", "at", "value", "context", "score"])
    order = list(CHOICES.values())
    found["place"] = [order.index(choice.split(", ")[0]) for choice in found["choice"]]
    keys = ["sweep", "place", "choice", "at", "value", "context"]
    return found.groupby(keys, dropna=False)["score"].mean().reset_index().drop(columns="place")


def _named(chosen: dict[str, Any]) -> dict[str, Any]:
    """The choice, its value as a number where it is one, and in words."""
    first = next(iter(chosen.values()))
    words = [
        f"{value:,.0f}" if isinstance(value, float | int) else str(value) or "none"
        for value in chosen.values()
    ]
    if "clusters.size" in chosen and not chosen["clusters.size"]:
        words[0] = "a domain"
    number = float(first) if isinstance(first, float | int) else 0.0
    return {
        "choice": ", ".join(CHOICES[name] for name in chosen),
        "at": number or float("inf") if "clusters.size" in chosen else number,
        "value": " × ".join(words),
    }


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and pd.isna(value))


@look()
def choices_figure(table: pd.DataFrame) -> Figure:
    """The score of every run of some sweeps, choice by choice; a panel per sweep.

    Args:
        table: As `choices_table` gives it.
    """
    sweeps = list(dict.fromkeys(table["sweep"]))
    most = max(len(_lines(table[table["sweep"] == sweep])) for sweep in sweeps)
    figure, grid = styled_figure(PAGE, 0.9 + 0.19 * most, columns=len(sweeps), sharex=True)
    colours, markers = context_colours(table["context"]), context_markers(table["context"])
    for axes, sweep in zip(grid[0], sweeps, strict=True):
        own = table[table["sweep"] == sweep]
        _panel(axes, own, colours, markers)
        axes.set_title(str(sweep))
        axes.set_xlabel("mean nDCG@10, points")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def _panel(
    axes: Axes, rows: pd.DataFrame, colours: dict[str, str], markers: dict[str, str]
) -> None:
    lines = _lines(rows)
    place = {line: -number for number, line in enumerate(lines)}
    for context, of_context in rows.groupby("context", sort=False):
        at = [place[choice, value] for choice, value in _keys(of_context)]
        axes.plot(
            100 * of_context["score"],
            at,
            linestyle="none",
            color=colours[str(context)],
            marker=markers[str(context)],
            label=f"context: {context_label(str(context))}",
        )
    before = ""
    names = []
    for choice, value in lines:
        names.append(f"{choice}: {value}" if choice != before else value)
        before = choice
    axes.set_yticks(list(place.values()), labels=names)
    axes.set_ylim(0.6 - len(lines), 0.6)  # room for the markers of the outer lines
    axes.grid(axis="both")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)


def _lines(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(_keys(rows)))


def _keys(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(rows["choice"], rows["value"], strict=True))


def _make(results: Results) -> Figure | None:
    table = choices_table(results.sweeps) if len(results.sweeps) else results.sweeps
    return choices_figure(table) if len(table) else None


def _note(results: Results) -> str:
    table = choices_table(results.sweeps) if len(results.sweeps) else results.sweeps
    said = []
    for sweep, rows in table.groupby("sweep", sort=False) if len(table) else ():
        one = rows[rows["context"] == rows["context"].iloc[0]].sort_values("score")
        low, high = (
            f"{choice} {value} ({100 * score:.1f})"
            for choice, value, score in one[["choice", "value", "score"]].iloc[[0, -1]].to_numpy()
        )
        said.append(f"{sweep}: from {low} to {high}.")
    return "\n".join(said)


EXHIBITS = (
    Exhibit(
        name="choices",
        section="clusters",
        title="What the choices of training are worth",
        caption="Every run differs from one recipe in one choice; its score is the mean over the "
        "tasks of its sweep. The choices are those of the paper's figures; its grids are larger.",
        source="CDE paper, figures 2, 3, 4, 9, 14 and 17, in small",
        command="cde-train sweep training/sweeps/choices.yaml --output results/sweeps/choices",
        make=_make,
        note=_note,
    ),
)
