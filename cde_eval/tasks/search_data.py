"""Search tasks, and their data: documents, queries, and what is judged relevant to what.

    names, folders ──▶ search_tasks ──▶ TaskSource
    TaskSource ──▶ load_search_task ──▶ task ──▶ places ──▶ judged_queries
               ──▶ search_data      ──▶ SearchData of its first subset and split

Queries of which no document is relevant have no score, so they are not among the judged ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mteb.abstasks import AbsTask, AbsTaskRetrieval

from cde_core.errors import TaskError
from cde_core.text import Purpose, Role
from cde_eval.tasks.catalogue import TaskSource, find_tasks
from cde_eval.tasks.corpus_texts import corpus_texts
from cde_eval.tasks.loading import load_task
from cde_eval.vectors import Rows

Place = tuple[str, str]
"""Subset and split."""

Judgements = dict[str, dict[str, int]]
"""For each query, the grades of documents."""


def search_tasks(
    names: Sequence[str] = (),
    data: Sequence[Path] = (),
    *,
    otherwise: Sequence[str] = (),
    types: Sequence[str] = ("Retrieval",),
) -> list[TaskSource]:
    """The search tasks that a user asks for: those named, else all there are in the data folders.

    Args:
        names: As for `find_tasks`.
        data: As for `find_tasks`.
        otherwise: Those that are meant where nothing is asked for; none: the built-in ones.
        types: What counts as a search task, by MTEB's types.

    Raises:
        TaskError: If a name is not known, one that was named is no search task, or none is left.
        DataError: If a data folder holds no data set.
    """
    found = find_tasks(names or (() if data else otherwise), data=data)
    searches = [source for source in found if source.kind in types]
    others = [source for source in found if source.kind not in types]
    if names and others:
        raise _no_search(others[0])
    if not searches:
        raise TaskError("None of these tasks is a search task; name others with --tasks or --data.")
    return searches


def _no_search(source: TaskSource) -> TaskError:
    return TaskError(
        f"{source.name} is a {source.kind} task and no search of a corpus; leave it out, or name "
        "one that is, such as DocsNetworkX or a BEIR folder."
    )


def load_search_task(source: TaskSource) -> AbsTaskRetrieval:
    """A fresh search task with its data, in the layout of mteb 2: `dataset[subset][split]`.

    Raises:
        TaskError: If it is no search task, or its data cannot be loaded.
    """
    task = source.make()
    if not isinstance(task, AbsTaskRetrieval):
        raise _no_search(source)
    load_task(task, source)
    task.convert_v1_dataset_format_to_v2(num_proc=None)
    return task


def places(task: AbsTask) -> Iterator[Place]:
    """Subsets and splits that a task is evaluated on."""
    return ((subset, split) for subset in task.hf_subsets for split in task.eval_splits)


def judged_queries(task: AbsTaskRetrieval, place: Place) -> Judgements:
    """The judgements of a loaded task, of queries with a relevant document."""
    subset, split = place
    return {
        query: {document: int(grade) for document, grade in grades.items()}
        for query, grades in task.dataset[subset][split]["relevant_docs"].items()
        if any(grade > 0 for grade in grades.values())
    }


@dataclass(frozen=True, slots=True)
class SearchData:
    """One subset and split of a search task."""

    task: AbsTaskRetrieval
    subset: str
    split: str
    document_ids: Sequence[str]
    documents: Sequence[str]
    query_ids: Sequence[str]
    queries: Sequence[str]
    judged: Judgements
    """Of queries with a relevant document."""

    def purpose(self, role: Role) -> Purpose:
        """What the texts of one side are for."""
        return Purpose(str(self.task.metadata.type), role, self.task.metadata.name)

    def positive_pairs(self) -> tuple[Rows, Rows]:
        """Rows of queries, and rows of documents that are relevant to them."""
        query_rows = {query: row for row, query in enumerate(self.query_ids)}
        document_rows = {document: row for row, document in enumerate(self.document_ids)}
        pairs = [
            (query_rows[query], document_rows[document])
            for query, grades in self.judged.items()
            for document, grade in grades.items()
            if grade > 0 and document in document_rows
        ]
        left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return left, right


def search_data(source: TaskSource) -> SearchData:
    """Load a search task; of one with several subsets or splits, the first.

    Raises:
        TaskError: If it is no search task, its data cannot be loaded, or nothing is judged.
    """
    task = load_search_task(source)
    subset, split = place = next(places(task))
    data = task.dataset[subset][split]
    found = SearchData(
        task=task,
        subset=subset,
        split=split,
        document_ids=list(data["corpus"]["id"]),
        documents=corpus_texts(data["corpus"]),
        query_ids=list(data["queries"]["id"]),
        queries=list(data["queries"]["text"]),
        judged=judged_queries(task, place),
    )
    if len(found.documents) < 2 or not found.judged:
        raise TaskError(f"{source.name} has fewer than two documents, or no judged query.")
    return found
