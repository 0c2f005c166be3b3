"""Figures: records in, Figure out; nothing is saved here.

One look for all: readable at column width, colours that colour-blind people tell apart (Okabe and
Ito's), direct labels, plain words on the axes, intervals shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cde_eval.report.tables import measure_name, runs
from cde_eval.results import RunRecord

COLOURS = {"none": "#999999", "random": "#E69F00", "corpus": "#0072B2"}
OTHER_COLOURS = ("#009E73", "#CC79A7", "#D55E00", "#56B4E9")
MARKERS = {"none": "o", "random": "s", "corpus": "D"}


def score_by_policy(records: Iterable[RunRecord]) -> Figure:
    """What each context does to each model's score, task by task; one panel per contextual model.

    Bars show the range over draws. A vertical tick marks a context-free model on the same task.
    """
    frame = runs(records)
    size = frame["size"]
    contextual = list(dict.fromkeys(frame.loc[size != "0", "model"]))
    plain = frame[~frame["model"].isin(contextual)]
    tasks = list(dict.fromkeys(frame["task"]))[::-1]
    panels = max(1, len(contextual))
    figure = Figure(figsize=(1.6 + 3.0 * panels, 1.5 + 0.32 * len(tasks)), layout="constrained")
    all_axes = figure.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    for axes, model in zip(all_axes, contextual or [""], strict=True):
        _policies_of_model(axes, frame[frame["model"] == model], tasks)
        for name, rows in plain.groupby("model", sort=False):
            means = rows.groupby("task")["score"].mean()
            places = [tasks.index(task) for task in means.index]
            axes.scatter(means, places, marker="|", s=130, color="black", label=name, zorder=2)
        axes.set_title(model, fontsize=9)
        axes.set_xlabel(" / ".join(dict.fromkeys(map(measure_name, frame["measure"]))))
        axes.grid(axis="x", color="0.92")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False, labelsize=8)
    all_axes[0].set_yticks(range(len(tasks)), labels=tasks)
    all_axes[0].set_ylim(-0.6, len(tasks) - 0.4)  # room for every marker of the outer tasks
    handles: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=len(handles) or 1,
        frameon=False,
        fontsize=8,
    )
    return figure


def _policies_of_model(axes: Axes, frame: pd.DataFrame, tasks: list[str]) -> None:
    spare = iter(OTHER_COLOURS * 4)
    policies = list(dict.fromkeys(frame["policy"]))
    for number, policy in enumerate(policies):
        rows = frame[frame["policy"] == policy].groupby("task")["score"]
        mean, low, high = rows.mean(), rows.min(), rows.max()
        lift = 0.16 * (number - (len(policies) - 1) / 2)  # policies of one task do not hide another
        places = [tasks.index(task) + lift for task in mean.index]
        axes.errorbar(
            mean,
            places,
            xerr=[(mean - low).clip(lower=0), (high - mean).clip(lower=0)],  # means are rounded
            fmt=MARKERS.get(policy, "^"),
            color=COLOURS.get(policy) or next(spare),
            markersize=5,
            linewidth=1,
            label=f"context: {policy}",
        )
