"""Is one run better than another, or did the choice of queries make it look so?

    sides A, B ──compare──▶ scores of each query under both ──▶ Comparison

Two means say nothing about that; the scores of each query under both runs do. Per task: the mean
difference with an interval by a paired bootstrap over queries, a randomisation test that flips the
sign of each query's difference, and its p corrected for the number of tasks by Holm's method.
A task with several splits or subsets is the mean of their means, and queries are resampled within
each. Tasks themselves are not resampled: "mean of 3 tasks" is about these three.

Of several draws of a context a query's score is the mean, and the interval resamples draws as well
as queries: the same draws of both sides where both have the same seeds, else those of each side by
themselves. Few draws say little about others, and one draw nothing, so a side with one adds no
spread; the randomisation test is about queries alone.

Sources: Smucker, Allan and Carterette (2007), https://doi.org/10.1145/1321440.1321528 (the
randomisation test in information retrieval); Sakai (2006),
https://doi.org/10.1145/1148170.1148261 (the bootstrap); Owen (2007),
https://doi.org/10.1214/07-AOAS122 (over draws and queries); Holm (1979),
https://www.jstor.org/stable/4615733; Dror et al. (2018), https://aclanthology.org/P18-1128 (how
to test in NLP).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cde_core.errors import ConfigError, DataError, did_you_mean
from cde_eval.resampling import (
    Floats,
    holm,
    interval,
    mean_of_means,
    randomisation_p,
    resampled_means,
    resampled_over_draws,
)
from cde_eval.results import RunRecord, Score, query_scores_path, read_query_scores
from cde_eval.sides import FOLDERS, Draws, Side, candidates_in_words

SIGNIFICANT = 0.05
"""A corrected p up to this is called a difference."""

QUERY = ["split", "subset", "query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """B minus A on one task, or on the mean of tasks; None where it cannot be said."""

    task: str
    measure: str
    a: float
    """Score of A, from 0 to 1."""
    b: float
    difference: float
    low: float | None = None
    """Ends of the interval; None where there are no queries to resample."""
    high: float | None = None
    p: float | None = None
    """Of the randomisation test, two-sided."""
    p_corrected: float | None = None
    won: int | None = None
    """Queries on which B is better."""
    lost: int | None = None
    tied: int | None = None

    @property
    def significant(self) -> bool:
        """Whether the corrected p says that there is a difference."""
        return self.p_corrected is not None and self.p_corrected <= SIGNIFICANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs, task by task."""

    a: str
    """What A is, in words: "bm25 · none"."""
    b: str
    tasks: tuple[Difference, ...]
    """By name."""
    mean: Difference
    """Over the tasks, each counted once."""
    notes: tuple[str, ...]
    """Sentences about what was left out, and why."""


def compare(
    a: Side, b: Side, *, tasks: Sequence[str] = (), measure: str | None = None, seed: int = 0
) -> Comparison:
    """Compare two runs on the tasks that both have.

    Args:
        a: The run to compare with.
        b: The run whose gain is asked for: differences are B − A.
        tasks: Only these; all that both have by default.
        measure: Measure of every task, by mteb's name; by default each task's main measure.
        seed: Of the resampling; a task's numbers do not depend on the other tasks.

    Raises:
        ConfigError: If both are the same run, or `tasks` names one that neither has.
        DataError: If a task's data, queries, candidates, protocol or measure differ.
    """
    if _files(a) == _files(b):
        raise ConfigError(
            f"A ({a.asked!r}) and B ({b.asked!r}) are the same results: {a.run}; name two runs."
        )
    shared, notes = _shared_tasks(a, b, tasks)
    found: list[tuple[Difference, Floats | None]] = []
    undefined = []
    for task in shared:
        left, right = a.tasks[task], b.tasks[task]
        _refuse_what_differs(task, left, right, measure)
        named = measure or next(iter(left.values())).main_measure
        queries = _query_scores(task, left, right, named)
        if queries is not None:
            paired = {*map(_seeds, left.values())} == {*map(_seeds, right.values())}
            found.append(_by_query(task, named, *queries, paired=paired, seed=seed))
        elif (scores := _plain_scores(task, left, right, named, measure)) is not None:
            found.append((_difference(task, named, *scores), None))
        else:
            undefined.append(task)
    if undefined:
        notes.append(f"Left out, since a score is undefined: {', '.join(undefined)}.")
    if not found:
        raise DataError(f"A and B cannot be compared: {' '.join(notes)}")
    without = [one.task for one, resampled in found if one.p is None]
    if without:
        notes.append(f"No scores of queries to resample, so no interval: {', '.join(without)}.")
    same = a.run == b.run
    return Comparison(
        a=_in_words(a, with_folder=same),
        b=_in_words(b, with_folder=same),
        tasks=tuple(_corrected([one for one, _ in found])),
        mean=_mean(found),
        notes=tuple(notes),
    )


DATA = "score both on the same data"

MUST_AGREE: tuple[tuple[str, Callable[[RunRecord], str], str], ...] = (
    ("data revision", lambda r: r.task_revision, DATA),
    ("data hash", lambda r: r.data_hash or "none", DATA),
    ("list of splits and subsets", lambda r: ", ".join(sorted(map(_place, r.scores))), DATA),
    (
        "list of candidates",
        lambda r: candidates_in_words(r.candidates),
        "rank the same candidates in both",
    ),
    ("protocol", lambda r: r.protocol, "score both under one protocol"),
    ("main measure", lambda r: r.main_measure, "name one that both have with --measure"),
)
"""What two records of a task have in common where their scores can be compared."""


def _refuse_what_differs(task: str, a: Draws, b: Draws, measure: str | None) -> None:
    for what, value, remedy in MUST_AGREE:
        if what == "main measure" and measure is not None:
            continue
        left, right = (sorted(set(map(value, side.values()))) for side in (a, b))
        if len({*left, *right}) > 1:
            raise DataError(
                f"{task} cannot be compared, since its {what} differs: {' and '.join(left)} in A, "
                f"{' and '.join(right)} in B; {remedy}."
            )
    for letter, draws in (("A", a), ("B", b)):
        seeds = [_seeds(record) for record in draws.values()]
        if len(set(seeds)) < len(seeds):
            raise DataError(
                f"{task} cannot be compared: {letter} has {len(seeds)} results of it that are not "
                f"draws of one another, such as {next(iter(draws))}; {FOLDERS}."
            )


def _seeds(record: RunRecord) -> str:
    """What tells a draw from others of the same run."""
    return json.dumps({place: read.get("seed") for place, read in sorted(record.contexts.items())})


def _place(score: Score) -> str:
    return f"{score.split}/{score.subset}"


def _files(side: Side) -> set[Path]:
    return {path.resolve() for draws in side.tasks.values() for path in draws}


def _in_words(side: Side, *, with_folder: bool) -> str:
    draws = f" (mean of {side.draws} draws)" if side.draws > 1 else ""
    return f"{side.asked}: {side.run}{draws}" if with_folder else f"{side.run}{draws}"


def _shared_tasks(a: Side, b: Side, asked: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tasks that both sides have, and sentences that name those that one lacks."""
    known = sorted({*a.tasks, *b.tasks})
    for task in asked:
        if task not in known:
            raise ConfigError(
                f"Neither A nor B has results of the task {task!r}.{did_you_mean(task, known)} "
                f"There are {', '.join(known)}."
            )
    wanted = [task for task in known if not asked or task in asked]
    notes = []
    for one, other in ((a, b), (b, a)):
        alone = [task for task in wanted if task not in other.tasks]
        if alone:
            notes.append(f"Left out, since only {one.letter} has them: {', '.join(alone)}.")
    return [task for task in wanted if task in a.tasks and task in b.tasks], notes


def _query_scores(
    task: str, a: Draws, b: Draws, measure: str
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Each query's scores, a column per draw, in one order; None where a record has none."""
    sides: list[list[pd.Series[float]]] = [[], []]
    for draws, series in zip((a, b), sides, strict=True):
        for path, record in sorted(draws.items(), key=lambda draw: _seeds(draw[1])):
            table = read_query_scores(path)
            if table is None or measure not in table:
                return None
            scores = pd.to_numeric(table.set_index(QUERY)[measure], errors="coerce")
            _refuse_damaged(path, record, scores)
            series.append(scores)
    every = pd.concat([scores for series in sides for scores in series]).index.unique()
    every = every.sort_values()
    for letter, series in zip("AB", sides, strict=True):
        missing = every.difference(_common(series))
        if len(missing):
            shown = ", ".join(str(query) for _, _, query in missing[:3])
            raise DataError(
                f"{task} cannot be compared, since its queries differ: {len(missing)} of "
                f"{len(every)} have no score in {letter} ({shown}{', …' * (len(missing) > 3)}); "
                f"{DATA}."
            )
    # One order, whatever that of the files: resampling goes by position.
    a_scores, b_scores = (pd.concat(series, axis=1).loc[every] for series in sides)
    return a_scores, b_scores


def _common(series: Sequence[pd.Series[float]]) -> Any:
    index = series[0].index
    for scores in series[1:]:
        index = index.intersection(scores.index)
    return index


def _refuse_damaged(path: Path, record: RunRecord, scores: pd.Series[float]) -> None:
    """Scores of queries that are not numbers, or not those that gave the record's score."""
    means = scores.groupby(level=["split", "subset"]).mean()
    stated = {(s.split, s.subset): s.measures.get(str(scores.name)) for s in record.scores}
    agree = all(
        abs(means[place] - value) < 1e-4  # mteb rounds to five decimals
        for place, value in stated.items()
        if value is not None and place in means.index
    )
    if scores.isna().any() or not scores.index.is_unique or not agree:
        raise DataError(
            f"{query_scores_path(path)} does not give the score in its record; delete both, and "
            "the run that made them will make them again."
        )


def _plain_scores(
    task: str, a: Draws, b: Draws, measure: str, asked: str | None
) -> tuple[float, float] | None:
    """Scores where queries have none of their own; None where one is undefined."""
    found = []
    for draws in (a, b):
        scores = [score for record in draws.values() for score in record.scores]
        if asked is not None and any(asked not in score.measures for score in scores):
            raise DataError(
                f"{task} has no measure {asked!r}.{did_you_mean(asked, scores[0].measures)} "
                "Leave out --measure for each task's main one, or name tasks that have it with "
                "--tasks."
            )
        values = [score.main if asked is None else score.measures[measure] for score in scores]
        if None in values:
            return None
        found.append(float(np.mean(np.array(values, dtype=np.float64))))
    return found[0], found[1]


def _difference(task: str, measure: str, a: float, b: float) -> Difference:
    return Difference(task=task, measure=measure, a=a, b=b, difference=b - a)


def _by_query(
    task: str, measure: str, a: pd.DataFrame, b: pd.DataFrame, *, paired: bool, seed: int
) -> tuple[Difference, Floats | None]:
    """A task's difference, and its resampled means for the mean of tasks."""
    # Sums of draws are rounded on the way: what differs by less than nine decimals is a tie.
    difference = (b.mean(axis=1) - a.mean(axis=1)).round(9)
    strata = [part for (part,) in _by_place(difference.to_frame())]
    rng = _generator(seed, task, "bootstrap")
    if max(a.shape[1], b.shape[1]) == 1:
        means = resampled_means(strata, rng)
    else:
        sides = zip(_by_place(a), _by_place(b), strict=True)
        means = resampled_over_draws(list(sides), rng, paired=paired)
    low, high = (None, None) if means is None else interval(means)
    score_a, score_b = (_of_places(side.mean(axis=1)) for side in (a, b))
    one = Difference(
        task=task,
        measure=measure,
        a=score_a,
        b=score_b,
        difference=mean_of_means(*strata),
        low=low,
        high=high,
        p=randomisation_p(strata, _generator(seed, task, "randomisation")),
        won=int((difference > 0).sum()),
        lost=int((difference < 0).sum()),
        tied=int((difference == 0).sum()),
    )
    return one, means


def _generator(seed: int, task: str, purpose: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}\0{task}\0{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def _by_place(scores: pd.DataFrame) -> list[Floats]:
    """For each split and subset, the columns (draws, queries)."""
    places = scores.groupby(level=["split", "subset"], sort=True)
    return [part.to_numpy(dtype=np.float64).T for _, part in places]


def _of_places(scores: pd.Series[float]) -> float:
    return float(scores.groupby(level=["split", "subset"]).mean().mean())


def _corrected(found: Sequence[Difference]) -> list[Difference]:
    tested = [one.p for one in found if one.p is not None]
    corrected = iter(holm(tested))
    return [one if one.p is None else replace(one, p_corrected=next(corrected)) for one in found]


def _mean(found: Sequence[tuple[Difference, Floats | None]]) -> Difference:
    """Mean over tasks; its interval from that of their resampled means, draw by draw.

    Which is a bootstrap within each task, since tasks are resampled independently of one another.
    """
    tasks = [one for one, _ in found]
    resampled = [means for _, means in found if means is not None]
    measures = {one.measure for one in tasks}
    low, high = None, None
    if len(resampled) == len(tasks):
        low, high = interval(np.mean(resampled, axis=0))
    return Difference(
        task=f"mean of {len(tasks)} task{'s' * (len(tasks) != 1)}",
        measure=measures.pop() if len(measures) == 1 else "",
        a=float(np.mean([one.a for one in tasks])),
        b=float(np.mean([one.b for one in tasks])),
        difference=float(np.mean([one.difference for one in tasks])),
        low=low,
        high=high,
    )
