"""How vectors lie in their space: rows of the probe `geometry` in, figures and a table out.

    rows ──▶ current ──▶ layer_figure · spectrum_figure · truncation_figure     a panel per model,
                    ├──▶ alignment_figure                                       a colour per context
                    └──▶ summary_table

What was measured on several tasks or draws is shown as their mean; intervals are means too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.style import (
    COLUMN,
    MARKERS,
    PAGE,
    context_colours,
    look,
    series_colours,
    styled_figure,
)

MOST_BESIDE = 4
"""Panels in a row."""

DECIDES = ("revision", "settings", "task_revision", "documents", "texts")
"""Columns of what a table was made with; two tables that differ here are not averaged."""

CONTEXT = {"none": "no context", "corpus": "its own corpus", "random": "other documents"}


def current(rows: pd.DataFrame, decides: Sequence[str] = DECIDES) -> pd.DataFrame:
    """Of each model and task, the rows of one table: the last, where there are several."""
    if rows.empty:
        return rows
    known = [column for column in decides if column in rows.columns]
    stamp = rows[known].astype(str).agg("\0".join, axis=1) if known else pd.Series("", rows.index)
    last = stamp.groupby([rows["model"], rows["task"]]).transform("last")
    return rows[stamp == last].assign(model=lambda kept: kept["model"].map(model_label))


def model_label(model: str) -> str:
    """A model as figures name it: a folder by its last part."""
    kind, colon, name = model.rpartition(":")
    return f"{kind}{colon}{Path(name).name}"


def context_label(context: str) -> str:
    """A context in plain words."""
    return CONTEXT.get(context, context)


@look()
def layer_figure(rows: pd.DataFrame) -> Figure:
    """Layer by layer: how alike two words are, and a word to itself in other texts."""
    figure, panels = _panels(_of(rows, "self-similarity"), "mean cosine")
    for model, axes in panels.items():
        for measure, style, said in (
            ("self-similarity", "-", "one word, other texts"),
            ("word anisotropy", ":", "any two words"),
        ):
            _lines(axes, _of(rows, measure, model), style)
            _label_above(axes, _of(rows, measure, model), said)
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.02)
        axes.set_xlabel("layer (0: what goes in)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _key(figure, rows)
    return figure


@look()
def spectrum_figure(rows: pd.DataFrame) -> Figure:
    """How much of the documents' variance their first principal components hold."""
    figure, panels = _panels(_of(rows, "variance"), "variance held")
    for model, axes in panels.items():
        _lines(axes, _of(rows, "variance", model), "-")
        _powers(axes, _of(rows, "variance", model)["at"])
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel("principal components")
    _key(figure, rows)
    return figure


@look()
def truncation_figure(rows: pd.DataFrame) -> Figure:
    """What a search is worth with the first dimensions alone."""
    figure, panels = _panels(_of(rows, "ndcg_at_10"), "nDCG@10")
    for model, axes in panels.items():
        _lines(axes, _of(rows, "ndcg_at_10", model), "-", band=True)
        _powers(axes, _of(rows, "ndcg_at_10", model)["at"])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("first dimensions kept")
    _key(figure, rows)
    return figure


@look()
def alignment_figure(rows: pd.DataFrame) -> Figure:
    """Queries near their answers, and documents far from one another: both at once."""
    figure, grid = styled_figure(COLUMN, 2.7)
    axes = grid[0, 0]
    spread = _of(rows, "uniformity", side="documents")
    near = _of(rows, "alignment")
    markers = _markers(rows)
    models = series_colours(rows["model"])
    for model, colour in models.items():
        for context in dict.fromkeys(rows.loc[rows["model"] == model, "context"]):
            x, y = (_mean(one, model, context) for one in (spread, near))
            axes.errorbar(
                x["value"],
                y["value"],
                xerr=[[x["value"] - x["low"]], [x["high"] - x["value"]]],
                yerr=[[y["value"] - y["low"]], [y["high"] - y["value"]]],
                color=colour,
                marker=markers[context],
                linewidth=0.9,
                linestyle="none",
            )
    axes.set_xlabel("uniformity of documents (← more even)")
    axes.set_ylabel("distance of query and answer\n(alignment; ↓ nearer)")
    axes.margins(0.12)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    handles = [Line2D([], [], color=c, marker="o", linestyle="none", label=m)
               for m, c in models.items()]  # fmt: skip
    if len(markers) > 1:
        handles += [
            Line2D([], [], color="0.4", marker=marker, linestyle="none", label=context_label(one))
            for one, marker in markers.items()
        ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handletextpad=0.3)
    return figure


def summary_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model, task and context: the measures of all vectors, and the score."""
    shown = {
        "anisotropy": ("anisotropy", "documents"),
        "uniformity": ("uniformity", "documents"),
        "effective rank": ("effective rank", "documents"),
        "alignment": ("alignment", "pairs"),
    }
    table = []
    for (model, task, context), group in rows.groupby(["model", "task", "context"], sort=False):
        line: dict[str, Any] = {"model": model_label(model), "task": task, "context": context}
        for name, (measure, side) in shown.items():
            found = _of(group, measure, side=side)["value"]
            line[name] = f"{found.mean():.1f}" if "rank" in name else f"{found.mean():.3f}"
        curve = _of(group, "ndcg_at_10").groupby("at")["value"].mean()
        for kept in [64, int(curve.index.max())] if len(curve) else []:
            if kept in curve.index:
                name = "nDCG@10" if kept == curve.index.max() else f"nDCG@10, {kept} dim."
                line[name] = f"{curve[kept]:.4f}"
        table.append(line)
    found = pd.DataFrame(table).fillna("")
    return found[[column for column in found if column != "nDCG@10"] + ["nDCG@10"]]


def _of(
    rows: pd.DataFrame, measure: str, model: str | None = None, *, side: str | None = None
) -> pd.DataFrame:
    chosen = rows["measure"] == measure
    if model is not None:
        chosen &= rows["model"] == model
    if side is not None:
        chosen &= rows["side"] == side
    return rows[chosen]


def _mean(rows: pd.DataFrame, model: str, context: str) -> pd.Series:
    of_both = rows[(rows["model"] == model) & (rows["context"] == context)]
    return of_both[["value", "low", "high"]].mean()


def _panels(rows: pd.DataFrame, label: str) -> tuple[Figure, dict[str, Axes]]:
    """A panel for each model in the rows, all on one scale."""
    models = list(dict.fromkeys(rows["model"]))
    beside = min(MOST_BESIDE, len(models))
    above = -(-len(models) // beside)
    width = COLUMN if beside == 1 else min(PAGE, 0.6 + 2.3 * beside)
    figure, grid = styled_figure(
        width, 0.5 + 2.0 * above, rows=above, columns=beside, sharex=False, sharey=True
    )
    for spare in grid.flat[len(models) :]:
        spare.set_axis_off()
    for line in grid:
        line[0].set_ylabel(label)
    for axes, model in zip(grid.flat, models, strict=False):
        axes.set_title(model)
        axes.grid(axis="y")
    return figure, dict(zip(models, grid.flat, strict=False))


def _lines(axes: Axes, rows: pd.DataFrame, style: str, *, band: bool = True) -> None:
    colours, markers = context_colours(rows["context"]), _markers(rows)
    for context, group in rows.groupby("context", sort=False):
        means = group.groupby("at")[["value", "low", "high"]].mean()
        axes.plot(
            means.index,
            means["value"],
            color=colours[context],
            linestyle=style,
            marker=markers[context],
            markersize=3,
        )
        if band and means["low"].notna().all():
            axes.fill_between(
                means.index,
                means["low"],
                means["high"],
                color=colours[context],
                alpha=0.15,
                linewidth=0,
            )


def _label_above(axes: Axes, rows: pd.DataFrame, text: str) -> None:
    """Name lines at their middle, clear of what is highest there."""
    highest = rows.groupby("at")["value"].max()
    middle, aside = len(highest) // 2, -(-len(highest) // 4)
    y = highest.iloc[max(0, middle - aside) : middle + aside + 1].max()
    offset: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
    axes.annotate(text, (highest.index[middle], y), color="0.3", **offset)


def _powers(axes: Axes, steps: pd.Series) -> None:
    """A scale of powers of two, with a tick at every other and at the last."""
    ticks = sorted({int(step) for step in steps})
    shown = ticks[::-2][::-1]
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, labels=[f"{tick:,}" for tick in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def _markers(rows: pd.DataFrame) -> dict[str, str]:
    spare = iter("^vPX" * 8)
    return {one: MARKERS.get(one) or next(spare) for one in dict.fromkeys(rows["context"])}


def _key(figure: Figure, rows: pd.DataFrame) -> None:
    """What the colours mean, where there is more than one context."""
    colours, markers = context_colours(rows["context"]), _markers(rows)
    if len(colours) < 2:
        return
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker=markers[one], label=context_label(one))
            for one, colour in colours.items()
        ],
        loc="outside upper left",
        ncols=len(colours),
    )


def _rows(results: Results, part: str | None = None) -> pd.DataFrame:
    rows = current(results.probe("geometry"))
    return rows if rows.empty or part is None else rows[rows["part"] == part]


def _drawn(part: str, figure: Any) -> Any:
    def make(results: Results) -> Any:
        rows = _rows(results, part)
        return None if rows.empty else figure(rows)

    return make


def _make_table(results: Results) -> pd.DataFrame | None:
    rows = _rows(results)
    return None if rows.empty else summary_table(rows)


def _change(results: Results, measure: str, part: str, side: str | None = None) -> str:
    """A sentence on what the corpus as context changes of a measure, for each contextual model."""
    rows = _rows(results, part)
    if rows.empty:
        return ""
    rows = _of(rows, measure, side=side)
    said = []
    for model, group in rows.groupby("model", sort=False):
        means = group.groupby("context")["value"].mean()
        if {"corpus", "none"} <= set(means.index):
            said.append(f"{model}: {means['none']:.2f} without context, {means['corpus']:.2f} with "
                        "its own corpus")  # fmt: skip
    return "; ".join(said) + "." if said else ""


def _layer_note(results: Results) -> str:
    rows = _rows(results, "layers")
    said = []
    for model, group in rows.groupby("model", sort=False) if not rows.empty else ():
        last = group[group["at"] == group["at"].max()].groupby("measure")["value"].mean()
        own, any_two = last["self-similarity"], last["word anisotropy"]
        said.append(f"{model}: in the last layer a word has a cosine of {own:.2f} with itself in "
                    f"other texts, and two words of {any_two:.2f}")  # fmt: skip
    return "; ".join(said) + "." if said else ""


def _truncation_note(results: Results) -> str:
    rows = _rows(results, "truncation")
    said = []
    for model, group in rows.groupby("model", sort=False) if not rows.empty else ():
        curve = group.groupby("at")["value"].mean()
        enough = next(int(at) for at, value in curve.items() if value >= 0.9 * curve.iloc[-1])
        said.append(
            f"{model} has nine tenths of its score with {enough} of {curve.index.max():.0f}"
        )
    return "; ".join(said) + "." if said else ""


COMMAND = "cde-eval geometry --model minilm centred:minilm path/to/model"

EXHIBITS = (
    Exhibit(
        name="geometry",
        section="geometry",
        title="How vectors lie in their space",
        caption="Anisotropy: mean cosine of two documents, 0 where they point everywhere alike. "
        "Uniformity: lower is more even. Effective rank: directions in use. Alignment: mean "
        "squared distance of a query and its answer, lower is nearer.",
        source="measures of the chapter on text embedding fundamentals",
        command=COMMAND,
        make=_make_table,
    ),
    Exhibit(
        name="geometry-layers",
        section="geometry",
        title="Words on their way through the layers",
        caption="Mean cosine of two random words, and of one word in different texts. The nearer "
        "the lines, the more of a word's vector is its text.",
        source="Ethayarajh (2019), figures 1 and 2, for encoders of texts",
        command=COMMAND,
        make=_drawn("layers", layer_figure),
        note=_layer_note,
    ),
    Exhibit(
        name="geometry-alignment",
        section="geometry",
        title="Alignment and uniformity",
        caption="Better is to the left (documents spread evenly) and down (queries near their "
        "answers). Colours are models, shapes are what was read first.",
        source="Wang and Isola (2020), alignment and uniformity",
        command=COMMAND,
        make=_drawn("vectors", alignment_figure),
        note=lambda results: _change(results, "uniformity", "vectors", "documents").replace(
            ": ", ", uniformity of documents: ", 1
        ),
    ),
    Exhibit(
        name="geometry-spectrum",
        section="geometry",
        title="How many directions hold the variance",
        caption="Share of the documents' variance along their first principal components; the "
        "sooner a line rises, the fewer directions are in use.",
        source="measures of the chapter on text embedding fundamentals",
        command=COMMAND,
        make=_drawn("spectrum", spectrum_figure),
        note=lambda results: _change(results, "effective rank", "vectors", "documents").replace(
            ": ", ", effective rank of documents: ", 1
        ),
    ),
    Exhibit(
        name="geometry-truncation",
        section="geometry",
        title="Searching with fewer dimensions",
        caption="nDCG@10 with the first dimensions alone, scaled to length one again; the band is "
        "the 95 % interval over queries.",
        source="Kusupati et al. (2022), Matryoshka representation learning",
        command=COMMAND,
        make=_drawn("truncation", truncation_figure),
        note=_truncation_note,
    ),
)
