"""What each context does to each model's score: records in, Figure out; nothing is saved here."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.style import (
    BLACK,
    GREEN,
    MARKERS,
    PAGE,
    PURPLE,
    VERMILION,
    context_colours,
    look,
    styled_figure,
)
from cde_eval.report.tables import COMMAND, measure_name, runs, usual
from cde_eval.results import RunRecord

PLAIN_COLOURS = (BLACK, VERMILION, GREEN, PURPLE)
"""Of models that read nothing; what tells them from contexts is their marker."""


@look()
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
    figure, grid = styled_figure(
        min(PAGE, 1.4 + 2.8 * panels),
        1.1 + 0.3 * len(tasks),
        columns=panels,
        sharex=True,
        sharey=True,
    )
    all_axes = grid[0]
    for axes, model in zip(all_axes, contextual or [""], strict=True):
        _policies_of_model(axes, frame[frame["model"] == model], tasks)
        by_model = plain.groupby("model", sort=False)
        for (name, rows), colour in zip(by_model, cycle(PLAIN_COLOURS)):
            means = rows.groupby("task")["score"].mean()
            places = [tasks.index(task) for task in means.index]
            axes.scatter(means, places, marker="|", s=130, color=colour, label=name, zorder=2)
        axes.set_title(model)
        axes.grid(axis="x")
        axes.spines["left"].set_visible(False)
        axes.tick_params(left=False)
    figure.supxlabel(" / ".join(dict.fromkeys(map(measure_name, frame["measure"]))), size=8)
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
        ncols=min(len(handles) or 1, 4),
    )
    return figure


def _policies_of_model(axes: Axes, frame: pd.DataFrame, tasks: list[str]) -> None:
    policies = list(dict.fromkeys(frame["policy"]))
    colours = context_colours(policies)
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
            color=colours[policy],
            linewidth=1,
            label=f"context: {policy}",
        )


def _score_by_policy(results: Results) -> Figure | None:
    records = usual(results.records)
    several = runs(records).groupby("model")["policy"].nunique() if records else pd.Series()
    return score_by_policy(records) if (several > 1).any() else None


EXHIBITS = (
    Exhibit(
        name="score_by_policy",
        section="scores",
        title="What each context does to each score",
        caption="Score of each model on each task, by what it read first: documents of the task's "
        "own corpus, other built-in documents (random), or none. Horizontal bars span the draws; "
        "an upright tick is a model that reads no context.",
        source="",
        command=COMMAND,
        make=_score_by_policy,
    ),
)
