"""mteb task objects whose data comes from this machine, not from the hub.

An mteb task is a class with metadata and a `load_data`. Here one is made from a type of task, its
metadata and a function that reads the data, so that a folder becomes a task with no code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from mteb.abstasks import (
    AbsTask,
    AbsTaskClassification,
    AbsTaskClustering,
    AbsTaskClusteringLegacy,
    AbsTaskMultilabelClassification,
    AbsTaskPairClassification,
    AbsTaskRetrieval,
    AbsTaskSTS,
    AbsTaskSummarization,
)
from mteb.abstasks.task_metadata import TaskMetadata

MAIN_SCORES = {
    "Retrieval": "ndcg_at_10",
    "Reranking": "map_at_1000",
    "Classification": "accuracy",
    "MultilabelClassification": "accuracy",
    "Clustering": "v_measure",
    "PairClassification": "max_ap",
    "STS": "cosine_spearman",
    "Summarization": "cosine_spearman",
}
"""The measure that MTEB reports for each type of task."""

_CLASSES: dict[str, type[AbsTask]] = {
    "Retrieval": AbsTaskRetrieval,
    "Reranking": AbsTaskRetrieval,
    "Classification": AbsTaskClassification,
    "MultilabelClassification": AbsTaskMultilabelClassification,
    "Clustering": AbsTaskClustering,
    "PairClassification": AbsTaskPairClassification,
    "STS": AbsTaskSTS,
    "Summarization": AbsTaskSummarization,
}


def local_task(
    name: str,
    task_type: str,
    *,
    read: Callable[[], Any],
    revision: str,
    description: str,
    splits: Iterable[str] = ("test",),
    legacy_clustering: bool = False,
    **attributes: Any,
) -> AbsTask:
    """A fresh mteb task of a type, with data that `read` returns when the task is loaded.

    Args:
        name: The task's name, in tables and result files.
        task_type: One of `MAIN_SCORES`.
        read: Returns what mteb expects in `task.dataset` for this type.
        revision: Names the exact data.
        description: One sentence for people.
        splits: Splits to evaluate.
        legacy_clustering: Each row is a set of sentences to cluster, as in MTEB v1.
        attributes: Class attributes of the task to set, such as `ignore_identical_ids`.
    """
    metadata = TaskMetadata(
        name=name,
        type=cast(Any, task_type),
        description=description,
        dataset={"path": f"local/{name}", "revision": revision},
        eval_splits=list(splits),
        eval_langs=["eng-Latn"],
        main_score=MAIN_SCORES[task_type],
        category="t2t",
    )
    base = AbsTaskClusteringLegacy if legacy_clustering else _CLASSES[task_type]

    def load_data(self: AbsTask, num_proc: int | None = None, **kwargs: Any) -> None:
        if not self.data_loaded:
            self.dataset = read()
            self.dataset_transform(num_proc=num_proc)
            self.data_loaded = True

    members = {"metadata": metadata, "load_data": load_data, **attributes}
    task: AbsTask = type(base.__name__, (base,), members)()
    return task


def files_revision(files: Iterable[Path], root: Path) -> str:
    """Hash of files' names and bytes: the revision of data that has no other."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(str(path.relative_to(root)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256-{digest.hexdigest()[:12]}"
