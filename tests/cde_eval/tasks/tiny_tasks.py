"""Tiny real mteb tasks of every type, whose every text and label is known by heart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset, DatasetDict
from mteb.abstasks import (
    AbsTask,
    AbsTaskBitextMining,
    AbsTaskClassification,
    AbsTaskClustering,
    AbsTaskClusteringLegacy,
    AbsTaskMultilabelClassification,
    AbsTaskPairClassification,
    AbsTaskRegression,
    AbsTaskRetrieval,
    AbsTaskSTS,
    AbsTaskSummarization,
    AbsTaskZeroShotClassification,
)
from mteb.abstasks.image import AbsTaskImageTextPairClassification
from mteb.abstasks.task_metadata import TaskMetadata

KINDS: dict[str, tuple[str, type[AbsTask], str]] = {
    "Retrieval": ("Retrieval", AbsTaskRetrieval, "ndcg_at_10"),
    "InstructionRetrieval": ("InstructionRetrieval", AbsTaskRetrieval, "ndcg_at_5"),
    "Reranking": ("Reranking", AbsTaskRetrieval, "map_at_1000"),
    "InstructionReranking": ("InstructionReranking", AbsTaskRetrieval, "p-MRR"),
    "Classification": ("Classification", AbsTaskClassification, "accuracy"),
    "Multilabel": ("MultilabelClassification", AbsTaskMultilabelClassification, "accuracy"),
    "Regression": ("Regression", AbsTaskRegression, "kendalltau"),
    "Clustering": ("Clustering", AbsTaskClustering, "v_measure"),
    "LegacyClustering": ("Clustering", AbsTaskClusteringLegacy, "v_measure"),
    "PairClassification": ("PairClassification", AbsTaskPairClassification, "max_ap"),
    "STS": ("STS", AbsTaskSTS, "cosine_spearman"),
    "BitextMining": ("BitextMining", AbsTaskBitextMining, "f1"),
    "Summarization": ("Summarization", AbsTaskSummarization, "cosine_spearman"),
    "ZeroShot": ("ZeroShotClassification", AbsTaskZeroShotClassification, "accuracy"),
    "ImagePairs": ("Compositionality", AbsTaskImageTextPairClassification, "image_acc"),
}
"""Our name for a kind of task: mteb's type, its class, its main score."""


def tiny_task(
    kind: str,
    data: Any,
    *,
    name: str = "",
    subsets: Sequence[str] = (),
    splits: Sequence[str] = ("test",),
    **attributes: Any,
) -> AbsTask:
    """A loaded mteb task of a kind on this data."""
    task_type, base, main_score = KINDS[kind]
    metadata = TaskMetadata(
        name=name or f"Tiny{kind}",
        type=task_type,
        description="A task for tests.",
        dataset={"path": "local/tiny", "revision": "1"},
        eval_splits=list(splits),
        eval_langs={s: ["eng-Latn"] for s in subsets} if subsets else ["eng-Latn"],
        main_score=main_score,
        category="t2t",
    )

    def load_data(self: AbsTask, **kwargs: Any) -> None:
        self.dataset = data
        self.data_loaded = True

    members = {"metadata": metadata, "load_data": load_data, **attributes}
    task: AbsTask = type(f"Tiny{kind}Task", (base,), members)()
    task.load_data()
    return task


def search_data(
    language: str = "", *, candidates: bool = False, instructions: bool = False
) -> dict[str, Any]:
    """Four documents, two queries; q1 is answered by d1 and q2 by d3, and d4 by nobody.

    With candidates: q1 ranks d3 and d1, q2 ranks d3 and d2, and d4 is ranked by nobody.
    """
    corpus = [
        {"id": "d1", "title": "Bread", "text": f"{language}flour and water"},
        {"id": "d2", "title": "", "text": f"{language}the mill grinds"},
        {"id": "d3", "title": "Rivers", "text": f"{language}rain fills the river"},
        {"id": "d4", "title": "", "text": f"{language}ships sail"},
    ]
    queries = [
        {"id": "q1", "text": f"{language}what is bread of?"},
        {"id": "q2", "text": f"{language}what fills rivers?"},
    ]
    if instructions:
        queries = [row | {"instruction": "Think of a kitchen."} for row in queries]
    return {
        "corpus": Dataset.from_list(corpus),
        "queries": Dataset.from_list(queries),
        "relevant_docs": {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2}},
        "top_ranked": {"q1": ["d3", "d1"], "q2": ["d3", "d2"]} if candidates else None,
    }


def split_of(columns: Mapping[str, Sequence[Any]], **more: Mapping[str, Sequence[Any]]) -> Any:
    """A data set with the split `test`, and others by name."""
    named = {"test": columns, **more}
    return DatasetDict({name: Dataset.from_dict(dict(rows)) for name, rows in named.items()})


def labelled(language: str = "", column: str = "label", labels: Sequence[Any] = (0, 1)) -> Any:
    """Twelve texts to train on and four to test, under two labels."""
    train = [f"{language}learn {n} {'boat' if n % 2 else 'oven'}" for n in range(12)]
    test = [f"{language}exam {n} {'boat' if n % 2 else 'oven'}" for n in range(4)]
    return split_of(
        {"text": test, column: [labels[n % 2] for n in range(4)]},
        train={"text": train, column: [labels[n % 2] for n in range(12)]},
    )


def clustered(language: str = "") -> Any:
    return split_of(
        {
            "sentences": [f"{language}oven one", f"{language}boat two", f"{language}oven three"],
            "labels": ["kitchen", "sea", "kitchen"],
        }
    )


def cluster_sets() -> Any:
    return split_of(
        {
            "sentences": [["oven one", "boat two"], ["oven three", "boat four", "boat five"]],
            "labels": [["kitchen", "sea"], ["kitchen", "sea", "sea"]],
        }
    )


def pairs(language: str = "", **scores: Sequence[Any]) -> Any:
    """Three left and three right sentences: `pairs(labels=[1, 0, 1])`, `pairs(score=…)`."""
    return split_of(
        {
            "sentence1": [f"{language}left {n}" for n in (1, 2, 3)],
            "sentence2": [f"{language}right {n}" for n in (1, 2, 3)],
            **scores,
        }
    )


def summaries() -> Any:
    return split_of(
        {
            "text": ["a long story of bread", "a long story of boats"],
            "human_summaries": [["people say bread", "of bread"], ["people say boats", "of boats"]],
            "machine_summaries": [["robot bread", "robot sea"], ["robot boats", "robot oven"]],
            "relevance": [[5.0, 1.0], [4.0, 2.0]],
        }
    )
