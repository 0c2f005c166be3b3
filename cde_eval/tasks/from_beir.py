"""What beir's loaders return as a retrieval task.

    GenericDataLoader(folder).load(split) ──▶ corpus, queries, qrels ──▶ task_from_beir ──▶ task

For data that is in memory already, by whatever way; `beir_folder` reads the same layout from disk
with less memory.

Data set layout: Thakur et al. (2021), BEIR, https://arxiv.org/abs/2104.08663
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTask

from cde_core.errors import DataError
from cde_eval.tasks.local import local_task

Corpus = Mapping[str, Mapping[str, str | None]] | Iterable[Mapping[str, str | None]]
"""Documents by id (GenericDataLoader), or rows with `id`, `title` and `text` (HFDataLoader)."""

Queries = Mapping[str, str] | Iterable[Mapping[str, str]]
"""Texts by id, or rows with `id` and `text`."""


def task_from_beir(
    name: str,
    corpus: Corpus,
    queries: Queries,
    qrels: Mapping[str, Mapping[str, int]],
    *,
    split: str = "test",
) -> AbsTask:
    """A fresh retrieval task on data in memory.

    Args:
        name: The task's name, in tables and result files.
        corpus: Documents; one without a title has the title "".
        queries: Queries; those that nobody judged are left out.
        qrels: Judgements by query and document.
        split: What the evaluated split is called.

    Raises:
        DataError: If the parts do not fit together.
    """
    documents = _documents(name, corpus)
    judged = {
        str(query): {str(document): int(score) for document, score in judgements.items()}
        for query, judgements in qrels.items()
    }
    texts = {query: text for query, text in _texts(queries).items() if query in judged}
    _check(name, documents, texts, judged)
    data = {
        "corpus": Dataset.from_dict(_columns(documents)),
        "queries": Dataset.from_dict({"id": list(texts), "text": list(texts.values())}),
        "relevant_docs": judged,
        "top_ranked": None,
    }
    return local_task(
        name,
        "Retrieval",
        read=lambda: {"default": {split: dict(data)}},
        revision=_revision(documents, texts, judged),
        description=f"Retrieval on the data {name}, as beir's loader returned it.",
        splits=[split],
        ignore_identical_ids=not any(query in found for query, found in judged.items()),
    )


def _documents(name: str, corpus: Corpus) -> dict[str, tuple[str, str]]:
    """Text and title by id."""
    rows: Iterable[tuple[Any, Mapping[str, str | None]]] = (
        corpus.items() if isinstance(corpus, Mapping) else ((row["id"], row) for row in corpus)
    )
    documents = {}
    for identity, row in rows:
        text = row.get("text")
        if text is None:
            raise DataError(
                f"The document {identity!r} of {name} has no text; give it one, or an empty one."
            )
        documents[str(identity)] = text, row.get("title") or ""
    return documents


def _texts(queries: Queries) -> dict[str, str]:
    if isinstance(queries, Mapping):
        return {str(query): text for query, text in queries.items()}
    return {str(row["id"]): row["text"] for row in queries}


def _columns(documents: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    return {
        "id": list(documents),
        "text": [text for text, _ in documents.values()],
        "title": [title for _, title in documents.values()],
    }


def _check(
    name: str,
    documents: Mapping[str, Any],
    queries: Mapping[str, Any],
    qrels: Mapping[str, Mapping[str, int]],
) -> None:
    for what, part in (("documents", documents), ("judgements", qrels)):
        if not part:
            raise DataError(f"{name} has no {what}; there is nothing to evaluate.")
    for query, judgements in qrels.items():
        if query not in queries:
            raise DataError(f"{name} judges the query {query!r}, which its queries do not have.")
        unknown = next((document for document in judgements if document not in documents), None)
        if unknown is not None:
            raise DataError(
                f"{name} judges the document {unknown!r} for the query {query!r}, and its corpus "
                "has no such document."
            )


def _revision(*parts: Mapping[str, Any]) -> str:
    """Hash of the content, in the order that it has: samples are drawn by position."""
    digest = hashlib.sha256()
    for part in parts:
        for item in part.items():
            digest.update(json.dumps(item).encode() + b"\n")
        digest.update(b"\n")
    return f"sha256-{digest.hexdigest()[:12]}"
