"""The documents that a task lends as context, for every type of MTEB task.

    task object (data loaded), split, subset ──▶ pool of texts, as the encoder would see them

The pool is drawn from by `contexts.draw_sample`. Labels, judgements and (except in a reranking
task's own candidates) queries never enter it.

| task type                              | pool                                                   |
|----------------------------------------|--------------------------------------------------------|
| Retrieval, InstructionRetrieval        | the corpus, title and text                             |
| Reranking, InstructionReranking        | the candidate documents                                |
| Classification, Multilabel, Regression | the text column of the train split                     |
| Clustering, both kinds                 | the sentences                                          |
| PairClassification, STS, BitextMining  | the sentences of both sides                            |
| Summarization                          | the texts that are summarised                          |
| ZeroShotClassification                 | the texts to classify: there is no other split         |

Source: Morris and Rush (2024), section 10.12; protocols `author` and `mteb` differ where
`protocols.py` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mteb.abstasks import (
    AbsTask,
    AbsTaskBitextMining,
    AbsTaskClassification,
    AbsTaskClustering,
    AbsTaskClusteringLegacy,
    AbsTaskPairClassification,
    AbsTaskRetrieval,
    AbsTaskSTS,
    AbsTaskSummarization,
    AbsTaskZeroShotClassification,
)

from cde_core.errors import ContextError
from cde_eval.protocols import Protocol
from cde_eval.tasks.corpus_texts import corpus_texts


def lent_documents(task: AbsTask, split: str, subset: str, protocol: Protocol) -> Sequence[str]:
    """Pool of documents that a task lends.

    Args:
        task: A task whose data is loaded.
        split: Split that is evaluated.
        subset: Subset that is evaluated ("default" where there is only one).
        protocol: Rules for what is lent.

    Raises:
        ContextError: If this type of task has no rule.
    """
    if isinstance(task, AbsTaskRetrieval):
        return _retrieval(task, split, subset, protocol)
    if isinstance(task, AbsTaskBitextMining):
        return _bitext(task, split, subset, protocol)
    rows = _rows(task, lending_split(task, split, protocol), subset)
    if isinstance(task, AbsTaskClassification | AbsTaskZeroShotClassification):
        return _column(rows, str(task.input_column_name))
    if isinstance(task, AbsTaskClustering | AbsTaskClusteringLegacy):
        return _clustering(_column(rows, str(task.input_column_name)), protocol)
    if isinstance(task, AbsTaskPairClassification):
        return _sides(rows, (task.input1_column_name, task.input2_column_name), protocol)
    if isinstance(task, AbsTaskSTS):
        return _sides(rows, task.column_names, protocol)
    if isinstance(task, AbsTaskSummarization):
        return _column(rows, task.text_column_name)
    raise ContextError(
        f"{task.metadata.name} is a {task.metadata.type} task, and there is no rule for what it "
        "lends as context; use --context none, random or file:PATH."
    )


def lending_split(task: AbsTask, split: str, protocol: Protocol) -> str:
    """Split that the context comes from.

    Classification embeds its train and its test split in one context, whichever comes first; its
    protocol says which of the two lends the text. Every other task lends what it evaluates.
    """
    if not isinstance(task, AbsTaskClassification):
        return split
    if protocol.classification_split == "train":
        return task.train_split
    return "test" if "test" in task.eval_splits else task.eval_splits[0]


def lending_subset(task: AbsTask, subset: str) -> str:
    """Subset that the context comes from: for a table of parallel languages, the whole table.

    mteb names the column as the subset there, and both columns of a pair need one context.
    """
    is_table = isinstance(task, AbsTaskBitextMining) and task.parallel_subsets
    return "parallel" if is_table else subset


def _retrieval(
    task: AbsTaskRetrieval, split: str, subset: str, protocol: Protocol
) -> Sequence[str]:
    task.convert_v1_dataset_format_to_v2(num_proc=None)
    data = task.dataset[subset][split]
    texts = corpus_texts(data["corpus"])
    # A search task whose candidates are rescored still has a corpus to lend.
    is_reranking = str(task.metadata.type).endswith("Reranking")
    wanted = _reranked_ids(data, protocol) if is_reranking else None
    if wanted is None:
        return texts
    ids = _column(data["corpus"], "id")
    return [text for text, identity in zip(texts, ids, strict=True) if identity in wanted]


def _reranked_ids(data: Any, protocol: Protocol) -> set[str] | None:
    """Ids that a reranking task lends; None where the whole corpus is lent."""
    if not data.get("top_ranked") or protocol.reranking_documents == "corpus":
        return None
    if protocol.reranking_documents == "relevant":
        judged = data["relevant_docs"].values()
        return {doc for judgements in judged for doc, score in judgements.items() if score > 0}
    return {doc for candidates in data["top_ranked"].values() for doc in candidates}


def _bitext(task: AbsTaskBitextMining, split: str, subset: str, protocol: Protocol) -> list[str]:
    pairs = task._get_pairs(task.parallel_subsets)
    if not task.parallel_subsets:
        rows = _rows(task, split, subset)
    else:  # one table with a column per language
        tables: Any = task.dataset
        rows = tables[split]
    columns = list(dict.fromkeys(column for pair in pairs for column in pair))
    if protocol.pair_sides == "first":
        columns = columns[:1]
    return [text for column in columns for text in _column(rows, column)]


def _clustering(sentences: Sequence[Any], protocol: Protocol) -> list[str]:
    if sentences and isinstance(sentences[0], str):
        return list(sentences)
    sets = sentences[:1] if protocol.clustering_sets == "first" else sentences
    return [sentence for one_set in sets for sentence in one_set]


def _sides(rows: Any, columns: Sequence[Any], protocol: Protocol) -> list[str]:
    lent = columns[:1] if protocol.pair_sides == "first" else columns
    return [text for column in lent for text in _flat(_column(rows, str(column)))]


def _flat(texts: Iterable[Any]) -> list[str]:
    """Pair classification sets of MTEB v1 hold one row with a list of all sentences."""
    return [one for text in texts for one in ([text] if isinstance(text, str) else text)]


def _rows(task: AbsTask, split: str, subset: str) -> Any:
    data: Any = task.dataset
    if subset not in data and subset == "default":
        return data[split]
    return data[subset][split]


def _column(rows: Any, name: str) -> list[Any]:
    """A column as a Python list, in one step instead of one per row.

    Some of mteb's tasks turn their data into a dictionary of columns, or a list of one such row.
    """
    in_memory = isinstance(rows, Mapping | list)
    names = list(rows[0] if isinstance(rows, list) else rows) if in_memory else rows.column_names
    if name not in names:
        raise ContextError(f"The task's data has no column {name!r}; it has {names}.")
    if in_memory:
        return [row[name] for row in rows] if isinstance(rows, list) else list(rows[name])
    return list(rows.select_columns([name]).with_format(None)[:][name])
