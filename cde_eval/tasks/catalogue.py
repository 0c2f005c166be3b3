"""From what a user writes after `--tasks`, `--benchmark` and `--data` to tasks.

    names, types, benchmark, folders ──▶ find_tasks ──▶ TaskSource ──▶ make() ──▶ fresh mteb task

A source makes a *fresh* task object every time: clustering and multilabel tasks of mteb carry a
random state that moves on with every evaluation, so a used object gives other scores.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import mteb
from mteb.abstasks import AbsTask

from cde_core.errors import DataError, TaskError, did_you_mean
from cde_eval.tasks.beir_folder import beir_task, is_beir_folder
from cde_eval.tasks.builtin import builtin_tasks
from cde_eval.tasks.hub_folder import (
    data_files,
    inferred_task,
    is_hub_folder,
    official_task,
    official_tasks,
)
from cde_eval.tasks.local import files_revision

DEEPEST = 3
"""Levels below a `--data` folder in which data sets are looked for."""


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A task that can be made afresh."""

    name: str
    origin: str
    """"built-in", "mteb", or the folder that its data comes from."""

    make: Callable[[], AbsTask]
    task_type: str = ""
    """MTEB task type; "" where only the data tells."""

    data_hash: Callable[[], str] = str
    """Hash of the files behind a task whose revision is only a claim; "" where it is more."""

    choices: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What has been changed of the task and changes scores: results are filed under it."""

    candidates: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Where lists of candidates are to be rescored: what a record says of them."""

    @property
    def kind(self) -> str:
        """MTEB task type; the task is made where only its data tells."""
        return self.task_type or str(self.make().metadata.type)


def find_tasks(
    names: Sequence[str] = (),
    *,
    types: Sequence[str] = (),
    benchmark: str | None = None,
    data: Sequence[Path] = (),
) -> list[TaskSource]:
    """The tasks that a user asks for, in order.

    Names are looked up in the data folders first, then among the built-in tasks, then in mteb.
    Without names: the benchmark's tasks, else all tasks of the data folders, else the built-in
    ones. Tasks whose data is in a data folder read it from there.

    Raises:
        TaskError: If a name, type or benchmark is not known, nothing is left, or both names and a
            benchmark are given.
        DataError: If a data folder holds no data set.
    """
    if names and benchmark:
        raise TaskError(
            f"Both tasks ({', '.join(names)}) and the benchmark {benchmark} are named; give one."
        )
    local = _by_name(source for folder in data for source in folder_tasks(folder))
    if names:
        found = [_named(name, local) for name in dict.fromkeys(names)]
    elif benchmark:
        found = [
            _as_asked(local[source.name], source) if source.name in local else source
            for source in _benchmark_tasks(benchmark)
        ]
    else:
        found = list(local.values()) or _builtin_sources()
    return _of_types(found, types)


def folder_tasks(folder: Path) -> list[TaskSource]:
    """Tasks on a data folder, or on the data sets in the folders below it.

    Raises:
        DataError: If there is no such folder, or no data set in it.
    """
    if not folder.is_dir():
        raise DataError(f"There is no data folder {folder}; --data takes existing folders.")
    sources = [source for place in _data_sets(folder, DEEPEST) for source in _sources(place)]
    if not sources:
        raise DataError(
            f"{folder} holds no data set: neither a BEIR folder (corpus.jsonl, queries.jsonl, "
            "qrels/) nor a folder in the hub's layout (README.md beside data files)."
        )
    return sources


def _by_name(sources: Iterable[TaskSource]) -> dict[str, TaskSource]:
    found: dict[str, TaskSource] = {}
    for source in sources:
        twin = found.setdefault(source.name, source)
        if Path(twin.origin).resolve() != Path(source.origin).resolve():
            raise DataError(
                f"{twin.origin} and {source.origin} both hold a task {source.name!r}; rename one "
                "of the folders, or give only one of them."
            )
    return found


def known_tasks() -> list[TaskSource]:
    """Every task that can be named without a data folder."""
    return [*_builtin_sources(), *_mteb_sources()]


def _data_sets(folder: Path, depth: int) -> Iterable[Path]:
    if is_hub_folder(folder) or is_beir_folder(folder):
        yield folder
    elif depth:
        for child in sorted(child for child in folder.iterdir() if child.is_dir()):
            yield from _data_sets(child, depth - 1)


def _sources(folder: Path) -> list[TaskSource]:
    origin = str(folder)
    if not is_hub_folder(folder):
        name = folder.resolve().name
        return [TaskSource(name, origin, lambda: beir_task(folder), "Retrieval")]
    names = official_tasks(folder)
    if not names:
        return [TaskSource(folder.resolve().name, origin, lambda: inferred_task(folder))]
    types = {source.name: source.task_type for source in _mteb_sources()}
    return [
        TaskSource(
            name,
            origin,
            lambda name=name: official_task(name, folder),  # type: ignore[misc]
            types[name],
            lambda: files_revision(data_files(folder), folder),
        )
        for name in names
    ]


def _named(name: str, local: dict[str, TaskSource]) -> TaskSource:
    for sources in (local, {source.name: source for source in known_tasks()}):
        if name in sources:
            return sources[name]
    names = {*local, *(source.name for source in known_tasks())}
    raise TaskError(
        f"There is no task {name!r}.{did_you_mean(name, names)} `cde-eval tasks` lists them."
    )


def _builtin_sources() -> list[TaskSource]:
    return [
        TaskSource(name, "built-in", make, kind) for name, (kind, make) in builtin_tasks().items()
    ]


@cache
def _mteb_sources() -> list[TaskSource]:
    tasks = mteb.get_tasks(modalities=["text"], exclude_superseded=False, exclude_private=False)
    return [_mteb_source(task) for task in tasks if task.metadata.modalities == ["text"]]


def _mteb_source(task: AbsTask) -> TaskSource:
    # A copy of a task that nobody has evaluated still has the random state it was made with.
    return TaskSource(
        task.metadata.name, "mteb", lambda: copy.deepcopy(task), str(task.metadata.type)
    )


def _benchmark_tasks(name: str) -> list[TaskSource]:
    known = {benchmark.name for benchmark in mteb.get_benchmarks()}
    if name not in known:
        raise TaskError(
            f"There is no benchmark {name!r}.{did_you_mean(name, known)} "
            "`cde-eval tasks --benchmarks` lists them."
        )
    return [_mteb_source(task) for task in mteb.get_benchmark(name).tasks]


def _as_asked(local: TaskSource, asked: TaskSource) -> TaskSource:
    """A task on a data folder with no more subsets and splits than the benchmark's own has."""

    def make() -> AbsTask:
        task, wanted = local.make(), asked.make()
        subsets = [subset for subset in task.hf_subsets if subset in wanted.hf_subsets]
        splits = [split for split in task.eval_splits if split in wanted.eval_splits]
        if not subsets or not splits:
            raise DataError(
                f"{local.origin} holds {', '.join(map(str, task.hf_subsets))} of {local.name} "
                f"({', '.join(task.eval_splits)}), and the benchmark is "
                f"{', '.join(map(str, wanted.hf_subsets))} ({', '.join(wanted.eval_splits)})."
            )
        task.hf_subsets = subsets
        return task.filter_eval_splits(splits)

    return replace(local, make=make)


def _of_types(sources: list[TaskSource], types: Sequence[str]) -> list[TaskSource]:
    if not types:
        return sources
    known = {source.kind for source in sources}
    wanted = {kind.lower() for kind in types}
    unknown = sorted(wanted - {kind.lower() for kind in known})
    if unknown:
        raise TaskError(
            f"None of the {len(sources)} tasks is of type {unknown[0]!r}; "
            f"they are of type {', '.join(sorted(known))}."
        )
    return [source for source in sources if source.kind.lower() in wanted]
