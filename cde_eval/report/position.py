"""Whether it matters where in a document the answer stands: four figures and a table.

    rows of the probes ──▶ means over queries, with intervals ──▶ figures 1 to 4 of the paper, ours

Intervals are by bootstrap over queries or documents; of counts, Wilson's.

Sources: Coelho et al. (2024), figures 1 to 4, https://arxiv.org/abs/2404.04163; Wilson (1927),
https://doi.org/10.1080/01621459.1927.10502953
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from cde_eval.probes.position import moved, spans, starts, tenths
from cde_eval.probes.position.moving import PLACES
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.style import (
    COLUMN,
    MARKERS,
    PAGE,
    PALE,
    SERIES_MARKERS,
    context_colours,
    label_line,
    look,
    series_colours,
    styled_figure,
)
from cde_eval.report.tables import measure_name
from cde_eval.resampling import CONFIDENCE, interval, resampled_means

SOURCE = "Coelho et al. (2024), Dwell in the Beginning"
COMMAND = "cde-eval position-bias --model minilm --context corpus random none"


def bias_table(
    found: pd.DataFrame, similar: pd.DataFrame, filled: pd.DataFrame, stood: pd.DataFrame
) -> pd.DataFrame:
    """Beginning against end, a row per model, data, context and measure.

    Args:
        found: Rows of the probe of moved passages; each of these may be empty.
        similar: Of tenths.
        filled: Of spans.
        stood: Of where passages stand.
    """
    rows = [*_moved_rows(found), *_tenth_rows(similar), *_span_rows(filled), *_start_rows(stood)]
    return pd.DataFrame(rows).fillna("")


def _moved_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, data, context), rows in _groups(_complete(frame)):
        for measure in moved.MEASURES:
            by_place = _by_place(rows, measure)
            yield {
                "part": "moved passage",
                "model": model,
                "data": data,
                "context": context,
                "measure": _name(measure),
                "unchanged": _text(by_place[moved.UNCHANGED].mean()),
                **_ends(by_place[[place for place in by_place if place != moved.UNCHANGED]]),
            }


def _complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the situations of a run that has not come to the last place yet."""
    if not len(frame):
        return frame
    reached = frame.groupby(["model", "data", "context", "draw"])["place"].transform("max")
    return frame[reached == PLACES]


def _tenth_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, data, context), rows in _groups(frame):
        by_tenth = rows.pivot_table(index="document", columns="tenth", values="cosine")
        about = {"part": "tenths", "model": model, "data": data, "context": context}
        yield {**about, "measure": "cosine", **_ends(by_tenth)}


def _span_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, data), rows in frame.groupby(["model", "data"], sort=False) if len(frame) else ():
        zones = rows.sort_values("zone")
        share = (zones["right_tokens"] / zones["tokens"]).to_numpy()
        first, last = share[0], share[-1]
        spread = np.sqrt((share * (1 - share) / zones["tokens"]).to_numpy()[[0, -1]]).tolist()
        half = stats.norm.ppf((1 + CONFIDENCE) / 2) * np.hypot(*spread)
        yield {
            "part": "spans",
            "model": model,
            "data": data,
            "measure": "tokens right",
            "first": _text(first),
            "middle": _text(float(share[len(share) // 2 - 1 : len(share) // 2 + 1].mean())),
            "last": _text(last),
            "last − first": f"{last - first:+.4f}",
            "95 %": f"[{last - first - half:+.4f}, {last - first + half:+.4f}]",
        }


def _start_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Where passages stand: the deciles take the place of first and last."""
    for data, rows in frame.groupby("data", sort=False) if len(frame) else ():
        low, median, high = (rows["start"].quantile(share) for share in (0.1, 0.5, 0.9))
        yield {
            "part": "positions",
            "model": "",
            "data": data,
            "context": "",
            "measure": "start, 10 / 50 / 90 % of passages",
            "first": f"{low:,.0f}",
            "middle": f"{median:,.0f}",
            "last": f"{high:,.0f}",
        }


def _ends(by_place: pd.DataFrame) -> dict[str, str]:
    """First, middle and last of a table with a row per query and a column per place."""
    columns = sorted(by_place)
    first, last = by_place[columns[0]], by_place[columns[-1]]
    halfway = len(columns) // 2
    middle = by_place[columns[halfway - 1 : halfway + 1]].to_numpy().mean()
    difference = (last - first).to_numpy(dtype=np.float64)
    bounds = _interval(difference)
    return {
        "first": _text(first.mean()),
        "middle": _text(middle),
        "last": _text(last.mean()),
        "last − first": f"{difference.mean():+.4f}",
        "95 %": "" if bounds is None else f"[{bounds[0]:+.4f}, {bounds[1]:+.4f}]",
    }


def _groups(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The rows of each model (with its pooling), data and context."""
    if not len(frame):
        return
    frame = frame.assign(model=_labels(frame))
    for key, rows in frame.groupby(["model", "data", "context"], sort=False):
        yield tuple(map(str, key)), rows  # type: ignore[misc]


def _labels(frame: pd.DataFrame) -> pd.Series:
    """The model's name as it is drawn: a folder's own name, and the pooling if it was changed."""
    short = frame["model"].astype(str).str.rstrip("/").str.rsplit("/", n=1).str[-1]
    if "pooling" not in frame:
        return short
    pooling = frame["pooling"].fillna("").astype(str)
    return short + np.where(pooling != "", ", " + pooling, "")


def _by_place(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A row per query, a column per place; the mean over draws."""
    keyed = rows.assign(query=rows["query"].astype(str))
    return keyed.pivot_table(index="query", columns="place", values=measure)


def _interval(values: Any) -> tuple[float, float] | None:
    means = resampled_means([np.asarray(values, dtype=np.float64)], np.random.default_rng(0))
    return None if means is None else interval(means)


def _text(score: float) -> str:
    return f"{score:.4f}"


def _name(measure: str) -> str:
    return {"mrr_at_100": "MRR@100", "recall_at_100": "Recall@100"}.get(measure) or measure_name(
        measure
    )


@look()
def moved_figure(frame: pd.DataFrame, measure: str = "ndcg_at_10") -> Figure:
    """The score with the passage at ten places (dashed), and unmoved (full); the paper's figure 1.

    A panel per data and model. Where the model reads less than half of the passage, the ground is
    grey: what does not enter the model is no bias of its own.

    Args:
        frame: Rows of the probe of moved passages.
        measure: Column to show.
    """
    frame = _complete(frame)
    figure, panels = _panels(frame, sharey="row")
    colours = context_colours(frame["context"])
    for axes, (_, rows) in panels:
        for context, of_context in rows.groupby("context", sort=False):
            by_place = _by_place(of_context, measure)
            colour = colours[str(context)]
            unchanged = by_place.pop(moved.UNCHANGED).mean()
            axes.axhline(unchanged, color=colour, linewidth=1.1, zorder=1)
            _line(axes, by_place, colour, MARKERS.get(str(context), "^"), linestyle="--")
        _shade_unread(axes, rows)
        axes.set_xticks([1, 4, 7, 10], labels=["first", "4th", "7th", "last"])
        axes.set_xlabel("place of the passage")
    _name_rows(panels, _name(measure))
    _context_key(figure, frame, colours)
    return figure


def _line(axes: Axes, by_place: pd.DataFrame, colour: str, marker: str, **style: Any) -> None:
    columns = sorted(by_place)
    bounds = [_interval(by_place[column]) for column in columns]
    if all(bound is not None for bound in bounds):
        low, high = zip(*[bound for bound in bounds if bound is not None], strict=True)
        axes.fill_between(columns, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(columns, by_place[columns].mean(), color=colour, marker=marker, markersize=3, **style)


def _shade_unread(axes: Axes, rows: pd.DataFrame) -> None:
    if rows["read"].isna().all():
        return
    read = rows[rows["place"] != moved.UNCHANGED].groupby("place")["read"].mean()
    unread = [int(place) for place in read.index if read[place] < 0.5]
    if unread:
        axes.axvspan(min(unread) - 0.5, max(unread) + 0.5, color=PALE, alpha=0.6, zorder=0, lw=0)
    if len(unread) > 3:  # else there is no room for words
        place = axes.get_xaxis_transform()
        middle = (min(unread) + max(unread)) / 2
        style: Any = {"ha": "center", "va": "top", "fontsize": 7, "color": "0.35"}
        axes.text(middle, 0.97, "beyond what it reads", transform=place, **style)
    axes.set_xlim(0.5, PLACES + 0.5)


@look()
def starts_figure(frame: pd.DataFrame) -> Figure:
    """Where relevant passages begin, in characters and as a share; the paper's figure 2."""
    data = list(dict.fromkeys(frame["data"].astype(str)))
    figure, axes = styled_figure(PAGE, 2.6, columns=2)
    share = frame["start"] / (frame["document"] - frame["passage"]).clip(lower=1)
    colours = series_colours(data)
    for panel, values in zip(axes[0], (frame["start"], 100 * share), strict=True):
        for place, name in enumerate(data):
            own = values[frame["data"] == name].to_numpy(dtype=np.float64)
            _violins(panel, own[:, None], [place], colours[name], alpha=0.45)
            low, median, high = np.quantile(own, [0.25, 0.5, 0.75])
            panel.plot([place, place], [low, high], color="0.25", linewidth=2)
            panel.plot([place], [median], marker="o", color="white", markeredgecolor="0.25")
            label_line(panel, place, median, f"{median:,.0f}", "0.15")
        names = [name.replace(", ", ",\n") for name in data]
        panel.set_xticks(range(len(data)), labels=names, rotation=25, ha="right")
        panel.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("characters before the passage")
    axes[0, 0].set_yscale("symlog", linthresh=1_000)  # corpora differ by far, and many start at 0
    axes[0, 0].set_yticks([0, 500, 1_000, 10_000, 100_000])
    axes[0, 0].yaxis.set_major_formatter("{x:,.0f}")
    axes[0, 1].set_ylabel("% of the way to the last place")
    return figure


def _violins(axes: Axes, columns: Any, places: list[int], colour: str, alpha: float) -> None:
    parts: Any = axes.violinplot(columns, positions=places, widths=0.85, showextrema=False)
    for body in parts["bodies"]:
        body.set(facecolor=colour, alpha=alpha, linewidth=0)


@look()
def tenths_figure(frame: pd.DataFrame) -> Figure:
    """Cosine of documents with their tenths: distributions and means; the paper's figure 3.

    A panel per data and model; violins are of the first context, lines are the mean of each.
    """
    figure, panels = _panels(frame, sharey="row")
    colours = context_colours(frame["context"])
    for axes, (_, rows) in panels:
        for number, (context, own) in enumerate(rows.groupby("context", sort=False)):
            by_tenth = own.pivot_table(index="document", columns="tenth", values="cosine")
            colour = colours[str(context)]
            if number == 0:
                columns = sorted(by_tenth)
                _violins(axes, by_tenth[columns].to_numpy(), columns, colour, alpha=0.25)
            _line(axes, by_tenth, colour, MARKERS.get(str(context), "^"))
        axes.set_xticks([1, 4, 7, 10], labels=["first", "4th", "7th", "last"])
        axes.set_xlabel("tenth of the document")
    _name_rows(panels, "cosine with the document")
    _context_key(figure, frame, colours)
    return figure


@look()
def spans_figure(frame: pd.DataFrame) -> Figure:
    """Share of tokens filled in rightly, by zone of the input; the paper's figure 4."""
    figure, grid = styled_figure(COLUMN, 2.4)
    axes = grid[0, 0]
    frame = frame.assign(model=_labels(frame))
    several = frame["data"].nunique() > 1
    names = frame["model"] + (", " + frame["data"].astype(str) if several else "")
    colours = series_colours(names)
    for number, (name, rows) in enumerate(frame.groupby(names, sort=False)):
        zones = rows.sort_values("zone")
        share = zones["right_tokens"] / zones["tokens"]
        bounds = [
            stats.binomtest(int(right), int(tokens)).proportion_ci(CONFIDENCE, method="wilson")
            for right, tokens in zip(zones["right_tokens"], zones["tokens"], strict=True)
        ]
        low, high = [bound.low for bound in bounds], [bound.high for bound in bounds]
        colour = colours[str(name)]
        axes.fill_between(zones["zone"], low, high, color=colour, alpha=0.15, linewidth=0)
        marker = SERIES_MARKERS[number % len(SERIES_MARKERS)]
        axes.plot(zones["zone"], share, color=colour, marker=marker)
        label_line(axes, float(zones["zone"].iloc[-1]), share.iloc[-1], str(name), colour)
    axes.set_ylim(bottom=0)
    axes.set_xticks([1, 4, 7, 10], labels=["first", "4th", "7th", "last"])
    axes.set_xlabel("tenth of the input")
    axes.set_ylabel("tokens filled in rightly")
    return figure


def _panels(
    frame: pd.DataFrame, **options: Any
) -> tuple[Figure, list[tuple[Axes, tuple[tuple[str, str], pd.DataFrame]]]]:
    """A panel per data (rows) and model (columns), each with its rows."""
    frame = frame.assign(model=_labels(frame))
    data, models = (list(dict.fromkeys(frame[name].astype(str))) for name in ("data", "model"))
    width = min(PAGE, COLUMN * len(models)) if len(models) > 1 else COLUMN
    figure, grid = styled_figure(
        width, 0.5 + 1.8 * len(data), rows=len(data), columns=len(models), **options
    )
    panels = []
    for row, name in enumerate(data):
        for column, model in enumerate(models):
            own = frame[(frame["data"] == name) & (frame["model"] == model)]
            axes = grid[row, column]
            axes.set_title(f"{model}\n{name}", fontsize=7.5)  # a panel is narrow
            if len(own):
                panels.append((axes, ((name, model), own)))
            else:
                axes.set_visible(False)
    return figure, panels


def _name_rows(panels: list[tuple[Axes, Any]], name: str) -> None:
    """The leftmost panel of each row carries the name and the numbers of its axis."""
    leftmost: dict[int, Axes] = {}
    for axes, _ in panels:
        leftmost.setdefault(axes.get_subplotspec().rowspan.start, axes)  # type: ignore[union-attr]
    for axes in leftmost.values():
        axes.set_ylabel(name)
        axes.tick_params(labelleft=True)


def _context_key(figure: Figure, frame: pd.DataFrame, colours: dict[str, str]) -> None:
    if len(colours) < 2:
        return
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=MARKERS.get(name, "^"), markersize=3)
        for name, colour in colours.items()
    ]
    names = [f"context: {name}" for name in colours]
    figure.legend(handles, names, loc="outside upper center", ncols=len(names))


def _made(probe: str, draw: Any, results: Results) -> Figure | None:
    frame = results.probe(probe)
    if probe == moved.PROBE:
        frame = _complete(frame)
    figure: Figure | None = draw(frame) if len(frame) else None
    return figure


def _table(results: Results) -> pd.DataFrame | None:
    names = (moved.PROBE, tenths.PROBE, spans.PROBE, starts.PROBE)
    table = bias_table(*(results.probe(name) for name in names))
    return table if len(table) else None


EXHIBITS = (
    Exhibit(
        name="position-moved",
        section="position",
        title="The answer at ten places of its document",
        caption="nDCG@10 with the relevant passage moved from the beginning to the end of its "
        "document (dashed) and where it stood (full), with 95 % intervals over queries. On grey "
        "ground the passage is behind what the model reads.",
        source=f"{SOURCE}, figure 1",
        command=COMMAND + " --part moved",
        make=partial(_made, moved.PROBE, moved_figure),
    ),
    Exhibit(
        name="position-starts",
        section="position",
        title="Where answers stand",
        caption="How many characters come before the relevant passage, and how far along its "
        "document it begins: distribution, quartiles (bar) and median (dot). In "
        "the 75,000 documents of MS MARCO that the paper looked at the median is 746 characters.",
        source=f"{SOURCE}, figure 2",
        command=COMMAND + " --part positions",
        make=partial(_made, starts.PROBE, starts_figure),
    ),
    Exhibit(
        name="position-tenths",
        section="position",
        title="A document and its ten tenths",
        caption="Cosine of the vector of a document with those of its ten tenths by tokens, of "
        "what the model reads: distribution over documents, and means with 95 % intervals.",
        source=f"{SOURCE}, figure 3",
        command=COMMAND + " --part tenths",
        make=partial(_made, tenths.PROBE, tenths_figure),
    ),
    Exhibit(
        name="position-spans",
        section="position",
        title="Filling in words early and late",
        caption="Share of tokens that a language model fills in rightly where spans of three are "
        "taken out of one tenth of its input, with 95 % intervals (Wilson).",
        source=f"{SOURCE}, figure 4",
        command="cde-eval position-bias --model google-t5/t5-base --part spans",
        make=partial(_made, spans.PROBE, spans_figure),
    ),
    Exhibit(
        name="position-bias",
        section="position",
        title="Beginning against end",
        caption="Scores with the passage first, in the middle and last, cosines of the first and "
        "last tenth, and accuracy in the first and last tenth of the input; the difference with "
        "its 95 % interval. For positions: the deciles of where passages start.",
        source="",
        command=COMMAND,
        make=_table,
    ),
)
