"""Our runs placed among the published models of similar size, type by type.

    records + mteb_eng_v1.csv ──▶ standings ──▶ leaderboard.html, and a table of places

A place is one among means over the same tasks: those of a type that our runs have. So a place says
nothing of tasks that were not run, and every table names the tasks that it is a mean of.

Source: the MTEB results repository (CC0), https://github.com/embeddings-benchmark/results
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cde_eval.report.benchmark import TYPES, benchmark_tasks, other_data, our_scores
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.web import command_html, escape, page_html, table_html
from cde_eval.results import write_atomically

PAGE_NAME = "leaderboard.html"
OVERALL = "All types"
COMMAND = 'cde-eval mteb --model MODEL --benchmark "MTEB(eng, v1)" --context corpus random'


@dataclass(frozen=True, slots=True)
class Standing:
    """A type of task, with everyone's scores on the same tasks of it."""

    name: str

    tasks: tuple[str, ...]

    of: int
    """Tasks that the type has in the benchmark."""

    scores: pd.DataFrame
    """Row per model, best first: model, ours, parameters, mean, and each task; from 0 to 1."""

    @property
    def ours(self) -> list[int]:
        """Numbers of our rows."""
        return [number for number, mine in enumerate(self.scores["ours"]) if mine]

    def place(self, row: int) -> int:
        """1 and the number of published models that are better than a row."""
        published = self.scores[~self.scores["ours"]]["mean"]
        return 1 + int((published > self.scores["mean"].iloc[row]).sum())


def standings(results: Results) -> list[Standing]:
    """One for each type of task that a run of ours has some of, and one for all of them.

    A run that lacks some of the tasks that another run has is left out of that type.
    """
    published, tasks, ours = _published(results), benchmark_tasks(results), our_scores(results)
    if published.empty or ours.empty:
        return []
    kinds = {kind: tasks.index[tasks["type"] == kind] for kind in TYPES}
    found = [_standing(kind, names, published, ours) for kind, names in kinds.items()]
    several = [one for one in found if one is not None]
    if len(several) > 1:
        whole = _standing(OVERALL, tasks.index, published, ours)
        return several if whole is None else [whole, *several]
    return several


def _published(results: Results) -> pd.DataFrame:
    published = results.published("mteb_eng_v1")
    return published if published.empty else published.set_index("model")


def _standing(
    name: str, of: pd.Index[str], published: pd.DataFrame, ours: pd.DataFrame
) -> Standing | None:
    tasks = [task for task in of if task in ours]
    mine = ours[tasks].dropna()
    if not tasks or mine.empty:
        return None
    rows = mine.set_axis([run for run, _, _ in mine.index]).assign(ours=True, parameters=None)
    others = published[[*tasks, "parameters"]].assign(ours=False)
    scores = pd.concat([others, rows.astype(others.dtypes.drop("parameters").to_dict())])
    scores["mean"] = scores[tasks].astype(float).mean(axis=1).round(9)  # equal sums round unlike
    scores = scores.rename_axis("model").reset_index()
    scores = scores.sort_values(["mean", "model"], ascending=[False, True], ignore_index=True)
    return Standing(
        name, tuple(tasks), len(of), scores[["model", "ours", "parameters", "mean", *tasks]]
    )


def shown(standing: Standing) -> pd.DataFrame:
    """The table of a standing, in points."""
    scores = standing.scores
    table = pd.DataFrame(
        {
            "place": [
                "" if mine else str(standing.place(row)) for row, mine in enumerate(scores["ours"])
            ],
            "model": [
                f"{model} (ours: would be {standing.place(row)})" if mine else model
                for row, (model, mine) in enumerate(
                    zip(scores["model"], scores["ours"], strict=True)
                )
            ],
            "million parameters": [
                "" if pd.isna(number) else f"{float(number) / 1e6:.0f}"
                for number in scores["parameters"]
            ],
            "mean": [f"{100 * mean:.2f}" for mean in scores["mean"]],
        }
    )
    if len(standing.tasks) == 1:
        return table.rename(columns={"mean": standing.tasks[0]})
    for task in standing.tasks:
        table[task] = [f"{100 * score:.2f}" for score in scores[task]]
    return table


def places(results: Results) -> pd.DataFrame | None:
    """Where each run of ours would stand, by type; None without runs on the benchmark's tasks."""
    rows = [
        {
            "run": standing.scores["model"].iloc[row],
            "type": standing.name,
            "tasks": f"{len(standing.tasks)} of {standing.of}",
            "mean": f"{100 * standing.scores['mean'].iloc[row]:.2f}",
            "place": f"{standing.place(row)} of {(~standing.scores['ours']).sum() + 1}",
        }
        for standing in standings(results)
        for row in standing.ours
    ]
    return pd.DataFrame(rows) if rows else None


def write_leaderboard(results: Results, out: Path) -> Path | None:
    """Write the page; None where there are no published scores.

    Args:
        results: Our results, and the published ones.
        out: Folder of the report.
    """
    published = _published(results)
    if published.empty:
        return None
    found = standings(results)
    links = "".join(f'<li><a href="#{_anchor(one)}">{escape(one.name)}</a></li>' for one in found)
    contents = (
        '<p><a href="index.html">← The report</a></p><ul>'
        f'<li><a href="#comparable">What is comparable</a></li>{links}</ul>'
    )
    introduction = (
        f"<p>{len(published)} published models with at most 350 million parameters, for which all "
        "56 tasks of MTEB(eng, v1) are published, and our runs among them, on the tasks that our "
        "runs have.</p>"
    )
    parts = [_comparable(results), *(_section(one) for one in found)]
    if not found:
        parts.append(
            '<p class="missing"><b>Not run yet:</b> none of our runs has a task of the benchmark.'
            f"{command_html(COMMAND)}</p>"
        )
    path = out / PAGE_NAME
    page = page_html("Among published models", introduction, contents, "\n".join(parts))
    write_atomically(path, page)
    return path


def _section(standing: Standing) -> str:
    many = len(standing.tasks)
    says = (
        f"All {many} tasks of the benchmark."
        if many == standing.of
        else f"{many} of the benchmark's {standing.of} tasks: {', '.join(standing.tasks)}."
    )
    return (
        f'<section id="{_anchor(standing)}"><h2>{escape(standing.name)}</h2>'
        f"<p>{escape(says)} Ours are marked; in points.</p>"
        f"{table_html(shown(standing), ours=standing.ours, whole=True)}</section>"
    )


def _comparable(results: Results) -> str:
    said = "".join(f"<li>{escape(one)}</li>" for one in not_comparable(results))
    return f'<section id="comparable"><h2>What is comparable</h2><ul>{said}</ul></section>'


def not_comparable(results: Results) -> Iterator[str]:
    """Sentences that say what a place does not mean."""
    yield (
        "Means are over the tasks that our runs have. They are no means of the benchmark unless a "
        "table says that all of its tasks are there, and a run without some of a type's tasks is "
        "left out of that type."
    )
    yield (
        "A contextual run has read unlabelled documents of the task's corpus before it embeds. Of "
        "the published models only jxm/cde-small-v1 and -v2 have; the others embed each text by "
        "itself."
    )
    yield (
        "Published scores are what authors or MTEB's maintainers reported, with mteb's versions "
        "and prompts of their time. Some models have seen training splits of these tasks."
    )
    yield "Runs on candidate lists and built-in tasks are left out: no published model has them."
    changed = other_data(results)
    if changed:
        yield (
            "Run here on data of another revision than most published scores name, or on copies "
            f"that name none: {', '.join(changed)}."
        )


def _anchor(standing: Standing) -> str:
    return standing.name.lower().replace(" ", "-")


EXHIBITS = (
    Exhibit(
        name="places",
        section="scores",
        title="Among published models",
        caption="Where each run would stand among published models with at most 350 million "
        "parameters, by the mean of the tasks that our runs have.",
        source="MTEB leaderboard (eng, v1)",
        command=COMMAND,
        make=places,
    ),
)
