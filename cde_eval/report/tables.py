"""Tables of scores: records in, DataFrame out.

A table holds one protocol. A score of several draws is their mean, with the standard deviation
over draws behind "±". What was not run is absent, and a mean is given only where every task that
it speaks of was run.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from cde_core.errors import ConfigError
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.results import TOKENS_PER_DOCUMENT, RunRecord, tidy

KEYS = ["type", "task", "split", "subset", "measure"]

Model = tuple[str, str, str]
"""Name, revision and settings."""


def runs(records: Iterable[RunRecord]) -> pd.DataFrame:
    """Tidy rows with a column `run`: model and policy, and whatever else tells two runs apart.

    `model` is the name alone, with revision and settings where there are several of that name: they
    are other models, and whoever groups by it never has two in one.

    Raises:
        ConfigError: If the records follow several protocols, which no table may mix.
    """
    frame = tidy(records)
    if frame.empty:
        return frame.assign(run=[])
    protocols = sorted(frame["protocol"].unique())
    if len(protocols) > 1:
        raise ConfigError(
            f"These results follow the protocols {' and '.join(protocols)}, whose scores are not "
            "comparable; keep them in results folders of their own."
        )
    reads = frame["size"] != "0"
    contextual = frame["model"].isin(frame.loc[reads, "model"])
    frame["model"] += told_apart(frame, ["model"], {"revision": "{}", "settings": "{}"})
    read = {"size": "J={}", "candidates": "{}"}
    names = frame["model"] + told_apart(frame, ["model", "policy"], read)
    frame["run"] = names.where(~contextual, names + " · " + frame["policy"])
    models = list(dict.fromkeys(frame["model"]))
    ranks = {"corpus": 0, "random": 1, "none": 3}
    return frame.sort_values(
        ["model", "policy"],
        key=lambda column: column.map(
            models.index if column.name == "model" else lambda policy: ranks.get(policy, 2)
        ),
        kind="stable",
    )


def told_apart(frame: pd.DataFrame, keys: list[str], by: Mapping[str, str]) -> pd.Series[str]:
    """What rows of the same keys are called besides, so that no two that differ are one."""
    found = pd.Series("", index=frame.index)
    for column, what in by.items():
        several = frame.groupby(keys)[column].transform("nunique") > 1
        found += [
            f" {what.format(value)}" if many and value else ""
            for value, many in zip(frame[column], several, strict=True)
        ]
    return found


def usual(records: Iterable[RunRecord]) -> list[RunRecord]:
    """What a table of scores shows: whole searches, at the context size that a model has most.

    Probes leave records too, of many sizes, of contexts from other tasks and of contexts cut
    otherwise; those have figures of their own. A model with other settings, or of another revision,
    is another model, with a size of its own. Where two sizes have as many tasks, the larger one is
    shown.
    """
    shown = [r for r in records if not _of_a_probe(r) and not r.candidates]
    tasks: dict[Model, dict[float, set[str]]] = {}
    for record in shown:
        if record.context_size != 0:
            of_size = tasks.setdefault(_model(record), {})
            of_size.setdefault(_size(record), set()).add(record.task)
    most = {
        model: max(of_size, key=lambda size: (len(of_size[size]), size))
        for model, of_size in tasks.items()
    }
    return [
        record
        for record in shown
        if record.policy == "none" or most.get(_model(record), _size(record)) == _size(record)
    ]


def _model(record: RunRecord) -> Model:
    return record.model, record.model_revision, json.dumps(record.settings, sort_keys=True)


def _size(record: RunRecord) -> float:
    return float("inf") if record.context_size is None else record.context_size


def _of_a_probe(record: RunRecord) -> bool:
    return record.policy.startswith("task:") or TOKENS_PER_DOCUMENT in record.settings


def score_table(records: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per task (and split and subset), one column per run, means below; text cells."""
    frame = runs(records)
    if frame.empty:
        return pd.DataFrame()
    order = list(dict.fromkeys(frame["run"]))
    frame = frame.assign(measure=frame["measure"].map(measure_name)).sort_index()
    cells = frame.groupby([*KEYS, "run"], sort=False)["score"].agg(["mean", "std"]).reset_index()
    cells["text"] = [
        score_text(mean, spread) for mean, spread in zip(cells["mean"], cells["std"], strict=True)
    ]
    table = cells.pivot(index=KEYS, columns="run", values="text")
    table = table.reindex(pd.MultiIndex.from_frame(cells[KEYS].drop_duplicates())).sort_index(
        level="type", sort_remaining=False
    )[order]
    return pd.concat([_labelled(table), _means(frame)[order]]).fillna("")


def as_read(table: pd.DataFrame) -> pd.DataFrame:
    """A score table as it is shown: tasks down the side, or runs where there are more of them."""
    if len(table.columns) <= len(table):
        return table.reset_index()
    names = [f"{task} {measure}".strip() for task, _, measure in table.index]
    return table.set_axis(names).T.rename_axis("run").reset_index()


def gain_table(records: Iterable[RunRecord]) -> pd.DataFrame:
    """What the corpus as context bought each model, against each other policy, in points.

    One row per run with the corpus and other run of the same model, revision and settings that
    read as much, or nothing: the mean over tasks of the difference in score × 100, and on how many
    of the tasks it is above zero. Only tasks that have both are compared.
    """
    frame = runs(records)
    scores = frame.groupby(["run", "task"])["score"].mean() if not frame.empty else pd.Series()
    distinct = frame.drop_duplicates("run") if not frame.empty else frame
    rows = []
    for corpus, other in itertools.product(distinct.itertuples(), repeat=2):
        if corpus.policy != "corpus" or not _differ_in_policy_alone(corpus, other):
            continue
        gain = (scores[corpus.run] - scores[other.run]).dropna() * 100
        if not gain.empty:
            rows.append(
                {
                    "model": str(corpus.run).removesuffix(" · corpus"),
                    "corpus against": other.policy,
                    "points": f"{gain.mean():+.2f}",
                    "better on": f"{int((gain > 0).sum())} of {len(gain)} tasks",
                }
            )
    return pd.DataFrame(rows)


def _differ_in_policy_alone(one: Any, other: Any) -> bool:
    alike = ("model", "revision", "settings", "candidates")
    same = all(getattr(one, name) == getattr(other, name) for name in alike)
    return same and one.policy != other.policy and other.size in (one.size, "0")


def measure_name(name: str) -> str:
    """A measure as people write it: "ndcg_at_10" is nDCG@10."""
    words = name.replace("_at_", "@").replace("ndcg", "nDCG").replace("map@", "MAP@")
    return words.replace("max_ap", "AP").replace("_", " ")


def score_text(mean: float, spread: float = float("nan")) -> str:
    """A score as tables show it: "0.5905", "0.5905 ± 0.0012", "–" where it is undefined."""
    if pd.isna(mean):
        return "–"
    return f"{mean:.4f}" if pd.isna(spread) else f"{mean:.4f} ± {spread:.4f}"


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """Rows named by task, with split and subset only where a task has several."""
    keys = table.index.to_frame(index=False)
    several = keys.groupby("task")["split"].transform("size") > 1
    names = keys["task"] + [
        f" ({row.split}{'' if row.subset == 'default' else ', ' + row.subset})" if many else ""
        for row, many in zip(keys.itertuples(), several, strict=True)
    ]
    labelled = table.reset_index(drop=True)
    labelled.insert(0, "task", names)
    labelled.insert(1, "type", keys["type"])
    labelled.insert(2, "measure", keys["measure"])
    return labelled.set_index(["task", "type", "measure"])


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean of each type's tasks, of all tasks, and of the types' means, as MTEB averages."""
    tasks = frame.groupby(["run", "type", "task"])["score"].agg(_mean_of_all)
    wanted = frame.groupby("type")["task"].nunique()
    places = frame.drop_duplicates(KEYS).groupby("type").size()
    filled = frame.drop_duplicates(["run", *KEYS]).groupby(["run", "type"]).size()
    rows: dict[str, dict[str, str]] = {}
    by_type: dict[str, dict[str, float]] = {}
    for run, scores in tasks.groupby(level="run"):
        for kind, count in places.items():
            mine = scores[scores.index.get_level_values("type") == kind]
            if filled.get((run, kind), 0) == count:
                by_type.setdefault(str(run), {})[str(kind)] = _mean_of_all(mine)
    for kind, count in wanted.items():
        if count > 1 and len(wanted) > 1:
            rows[f"mean of {kind}"] = {
                run: score_text(means[str(kind)]) for run, means in by_type.items() if kind in means
            }
    complete = {run: means for run, means in by_type.items() if len(means) == len(wanted)}
    if len(wanted) > 1 or (len(wanted) == 1 and wanted.iloc[0] > 1):
        rows["mean of tasks"] = {run: score_text(_mean_of_all(tasks[run])) for run in complete}
    if len(wanted) > 1:
        rows["mean of types"] = {
            run: score_text(sum(means.values()) / len(means)) for run, means in complete.items()
        }
    labels = pd.MultiIndex.from_tuples(
        [(name, "", "") for name in rows], names=["task", "type", "measure"]
    )
    return pd.DataFrame(list(rows.values()), index=labels, columns=sorted(set(frame["run"])))


def _mean_of_all(scores: pd.Series[float]) -> float:
    """Undefined where one of the scores is, since the others do not stand for it."""
    return float(scores.mean(skipna=False))


COMMAND = (
    "cde-eval mteb --model bm25 minilm cde-mini centred:minilm "
    "--context corpus random none --draws 3"
)


def _scores(results: Results) -> pd.DataFrame | None:
    records = usual(results.records)
    return as_read(score_table(records)) if records else None


def _gains(results: Results) -> pd.DataFrame | None:
    gains = gain_table(usual(results.records))
    return None if gains.empty else gains


EXHIBITS = (
    Exhibit(
        name="scores",
        section="scores",
        title="Every score",
        caption="Main score of each run on each task. A score of several draws of the context is "
        "their mean, with the standard deviation over draws; what was not run is left blank.",
        source="",
        command=COMMAND,
        make=_scores,
    ),
    Exhibit(
        name="gains",
        section="scores",
        title="What the context bought",
        caption="The corpus as context against each other one, for the same model: difference in "
        "points, as a mean over the tasks that have both.",
        source="",
        command=COMMAND,
        make=_gains,
    ),
)
