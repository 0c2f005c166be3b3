"""A folder in the Hugging Face hub's layout as a task.

    ORG/NAME/README.md with `configs:`, data files beside it      e.g. downloads of mteb/nfcorpus

A folder called as an official mteb data set is called becomes that official task, unmodified but
for where it reads. Any other folder becomes a task of the type that its columns tell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import mteb
from mteb.abstasks import AbsTask, AbsTaskRetrieval
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

from cde_core.errors import CdeWarning, DataError
from cde_eval.tasks.beir_folder import SPLITS
from cde_eval.tasks.local import files_revision, local_task

DATA_SUFFIXES = frozenset({".jsonl", ".json", ".parquet", ".csv", ".tsv", ".gz", ".arrow"})

COLUMNS_OF = {
    "Summarization": {"text", "human_summaries", "machine_summaries", "relevance"},
    "STS": {"sentence1", "sentence2", "score"},
    "PairClassification": {"sentence1", "sentence2", "labels"},
    "Clustering": {"sentences", "labels"},
    "Classification": {"text", "label"},
}
"""Columns by which a folder's type of task is known, the most telling first."""


def is_hub_folder(folder: Path) -> bool:
    """Whether a folder is laid out as the hub lays out a data set.

    Its README starts with a block of YAML; a README for people does not make a data set.
    """
    card = folder / "README.md"
    if not card.is_file() or not card.read_bytes().startswith(b"---"):
        return False
    return bool(data_files(folder))


def official_tasks(folder: Path) -> list[str]:
    """Names of mteb's tasks on the data set that a folder `ORG/NAME` holds; superseded ones too."""
    folder = folder.resolve()
    return _tasks_by_dataset().get(f"{folder.parent.name}/{folder.name}".lower(), [])


def official_task(name: str, folder: Path) -> AbsTask:
    """A fresh official mteb task that reads its data from a folder.

    Only the subsets and splits that the folder holds are evaluated.

    Raises:
        DataError: If the folder holds none of them.
    """
    folder = folder.resolve()
    task = mteb.get_task(name)
    source = {**task.metadata.dataset, "path": str(folder)}
    task.metadata = task.metadata.model_copy(update={"dataset": source})
    held = _splits_by_config(folder)
    suffix = "corpus" if isinstance(task, AbsTaskRetrieval) else ""
    subsets = [subset for subset in task.hf_subsets if _config(subset, suffix) in held]
    if not suffix and len(held) == len(task.hf_subsets) == 1:
        subsets = list(task.hf_subsets)  # one data set, whatever the folder calls it
    if not subsets:
        raise DataError(
            f"{folder} holds the configurations {', '.join(held)}, and {name} needs one of "
            f"{', '.join(map(str, task.hf_subsets))}."
        )
    task.hf_subsets = subsets
    _read_apart(task, folder)
    splits = set.intersection(*(_splits_of(subset, held, suffix) for subset in subsets))
    wanted = [split for split in task.eval_splits if split in splits]
    if not wanted:
        raise DataError(
            f"{folder} holds the splits {', '.join(sorted(splits))}, and {name} is evaluated on "
            f"{', '.join(task.eval_splits)}."
        )
    return task.filter_eval_splits(wanted)


def inferred_task(folder: Path) -> AbsTask:
    """A fresh task on a folder that is no official data set, of the type that its columns tell.

    Raises:
        DataError: If the columns fit no type of task, or a part of the data is missing.
    """
    folder = folder.resolve()
    held = _splits_by_config(folder)
    revision = files_revision(data_files(folder), folder)
    description = f"A task on the folder {folder.name}, of the type that its columns tell."
    if "corpus" in held and "queries" in held:
        split = _evaluated(folder, held.get("qrels") or held.get("default") or set())
        kind = "Reranking" if "top_ranked" in held else "Retrieval"
        return local_task(
            folder.name,
            kind,
            read=lambda: {"default": {split: _retrieval(folder, revision, split)}},
            revision=revision,
            description=description,
            splits=[split],
        )
    config = "default" if "default" in held else next(iter(held))
    if others := [name for name in held if name != config]:
        warnings.warn(
            f"{folder} holds the configurations {', '.join(held)}, of which {config} is scored; "
            f"for {', '.join(others)}, give each a folder of its own.",
            CdeWarning,
            stacklevel=2,
        )
    split = _evaluated(folder, held[config])
    features = _load(folder, config)[split].features
    kind = _type_by_columns(folder, features)
    if kind in ("Classification", "MultilabelClassification") and not held[config] > {"train"}:
        raise DataError(
            f"{folder} holds the splits {', '.join(sorted(held[config]))}; a classification task "
            "needs the split train and one to test on."
        )
    return local_task(
        folder.name,
        kind,
        read=lambda: _load(folder, config),
        revision=revision,
        description=description,
        splits=[split],
        legacy_clustering=kind == "Clustering" and not _holds_strings(features["sentences"]),
    )


def _evaluated(folder: Path, splits: set[str]) -> str:
    if not splits:
        raise DataError(
            f"{folder} has a corpus and queries but no judgements; it needs a configuration "
            "`default` or `qrels`."
        )
    return next((split for split in SPLITS if split in splits), min(splits))


def _type_by_columns(folder: Path, features: Mapping[str, Any]) -> str:
    for kind, columns in COLUMNS_OF.items():
        if columns <= set(features):
            if kind == "Classification" and not _holds_one(features["label"]):
                return "MultilabelClassification"
            return kind
    known = "; ".join(f"{kind}: {', '.join(sorted(c))}" for kind, c in COLUMNS_OF.items())
    raise DataError(f"{folder} has the columns {', '.join(features)}, which fit no task ({known}).")


def _holds_one(feature: Any) -> bool:
    return isinstance(feature, datasets.Value | datasets.ClassLabel)


def _holds_strings(feature: Any) -> bool:
    return isinstance(feature, datasets.Value)


def _retrieval(folder: Path, revision: str, split: str) -> Any:
    with _kept_apart(folder):
        return RetrievalDatasetLoader(hf_repo=str(folder), revision=revision, split=split).load()


def _load(folder: Path, config: str) -> Any:
    with _kept_apart(folder):
        return datasets.load_dataset(str(folder), config)


@contextmanager
def _kept_apart(folder: Path) -> Iterator[None]:
    """Have `datasets` keep what it reads here under the hash of the folder's content.

    Its cache knows a folder by its last name and its card alone: it serves what another folder of
    that name held, or what this one held before it was changed.
    """
    usual = datasets.config.HF_DATASETS_CACHE
    content = files_revision([folder / "README.md", *data_files(folder)], folder)
    datasets.config.HF_DATASETS_CACHE = Path(usual) / "cde-eval" / content
    try:
        yield
    finally:
        datasets.config.HF_DATASETS_CACHE = usual


def _read_apart(task: AbsTask, folder: Path) -> None:
    """Have a task load its data with nothing cached of another folder."""
    load = task.load_data

    def load_data(num_proc: int | None = None, **kwargs: Any) -> None:
        with _kept_apart(folder):
            load(num_proc=num_proc, **kwargs)

    task.load_data = load_data  # type: ignore[method-assign]


def _splits_of(subset: str, held: Mapping[str, set[str]], suffix: str) -> set[str]:
    """Splits that a subset can be evaluated on; in a search, those that have judgements."""
    names = [subset]
    if suffix:
        names = ["qrels", "default"] if subset == "default" else [f"{subset}-qrels", subset]
    return next((held[name] for name in names if name in held), next(iter(held.values())))


def _config(subset: str, suffix: str) -> str:
    if not suffix:
        return subset
    return suffix if subset == "default" else f"{subset}-{suffix}"


def _splits_by_config(folder: Path) -> dict[str, set[str]]:
    path = str(folder)
    try:
        configs = datasets.get_dataset_config_names(path)
        return {c: set(datasets.get_dataset_split_names(path, c)) for c in configs}
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise DataError(f"The data set folder {folder} cannot be read: {reason}") from error


def data_files(folder: Path) -> list[Path]:
    """Files below a folder that hold its data."""
    return [path for path in folder.rglob("*") if path.suffix in DATA_SUFFIXES and path.is_file()]


@cache
def _tasks_by_dataset() -> Mapping[str, list[str]]:
    tasks: dict[str, list[str]] = {}
    for task in _text_tasks():
        path = task.metadata.dataset.get("path")
        if isinstance(path, str) and not isinstance(task, AbsTaskAggregate):
            tasks.setdefault(path.lower(), []).append(task.metadata.name)
    return tasks


def _text_tasks() -> Iterable[AbsTask]:
    return mteb.get_tasks(modalities=["text"], exclude_superseded=False, exclude_private=False)
