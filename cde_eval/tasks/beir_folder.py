"""A folder in BEIR layout as a retrieval task.

    corpus.jsonl      {"_id", "title" (optional), "text"}
    queries.jsonl     {"_id", "text"}
    qrels/SPLIT.tsv   query-id, corpus-id, score, with a header

Data set layout: Thakur et al. (2021), BEIR, https://arxiv.org/abs/2104.08663
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from mteb.abstasks import AbsTask

from cde_core.errors import DataError
from cde_eval.tasks.jsonl_tables import QUERIES, read_corpus, read_table
from cde_eval.tasks.local import files_revision, local_task

PARTS = ("corpus.jsonl", "queries.jsonl", "qrels")
SPLITS = ("test", "dev", "validation", "train")
"""Splits in the order of preference; the first that a folder has is evaluated."""

Qrels = dict[str, dict[str, int]]


def is_beir_folder(folder: Path) -> bool:
    """Whether a folder means to be in BEIR layout; it may lack a part, which is then an error."""
    return any((folder / part).exists() for part in PARTS)


def beir_task(folder: Path) -> AbsTask:
    """A fresh retrieval task on a BEIR folder, named after it; its data is read when it is loaded.

    Raises:
        DataError: If a part of the folder is missing.
    """
    split = evaluated_split(folder)
    files = [folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / f"{split}.tsv"]
    qrels = read_qrels(files[2])
    revision = files_revision(files, folder)
    return local_task(
        folder.resolve().name,
        "Retrieval",
        read=lambda: {"default": {split: _read(folder, qrels, revision)}},
        revision=revision,
        description=f"Retrieval on the BEIR folder {folder.name}.",
        splits=[split],
        ignore_identical_ids=not any(query in documents for query, documents in qrels.items()),
    )


def evaluated_split(folder: Path) -> str:
    """The split of a BEIR folder that is evaluated.

    Raises:
        DataError: If a part of the folder is missing.
    """
    for part in PARTS:
        if not (folder / part).exists():
            raise DataError(
                f"The BEIR folder {folder} has no {part}; it needs {', '.join(PARTS)}/SPLIT.tsv."
            )
    found = [split for split in SPLITS if (folder / "qrels" / f"{split}.tsv").is_file()]
    if not found:
        raise DataError(
            f"The BEIR folder {folder} has no judgements in qrels/; it needs one of "
            f"{', '.join(f'{split}.tsv' for split in SPLITS)}."
        )
    return found[0]


def read_qrels(path: Path) -> Qrels:
    """Judgements by query and document.

    Raises:
        DataError: If a line does not hold query, document and a whole number, or it is not text.
    """
    qrels: Qrels = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8 ({error}).") from error
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if fields == [""] or (number == 1 and not _is_whole(fields[-1])):
            continue  # blank line, or the header
        if len(fields) != 3 or not _is_whole(fields[2]):
            raise DataError(
                f"{path}, line {number}: expected query-id, corpus-id and a whole-number score "
                f"separated by tabs, found {line.strip()!r}."
            )
        qrels.setdefault(fields[0], {})[fields[1]] = int(fields[2])
    return qrels


def _read(folder: Path, qrels: Qrels, revision: str) -> dict[str, Any]:
    corpus = read_corpus(folder / "corpus.jsonl", revision)
    if not len(corpus):
        raise DataError(f"{folder / 'corpus.jsonl'} is empty; there is nothing to search.")
    queries = read_table(folder / "queries.jsonl", QUERIES)
    queries = queries.filter(_is_one_of(queries["id"], qrels))
    judged = {document for documents in qrels.values() for document in documents}
    ids = corpus.data.column("id")
    there = set(ids.filter(_is_one_of(ids, judged)).to_pylist())
    _check_judgements(folder, qrels, set(queries["id"].to_pylist()), there)
    return {
        "corpus": corpus,
        "queries": Dataset(queries.combine_chunks(), fingerprint=f"{revision}-queries"),
        "relevant_docs": qrels,
        "top_ranked": None,
    }


def _is_one_of(column: pa.ChunkedArray, ids: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(list(ids), pa.string()))


def _check_judgements(folder: Path, qrels: Qrels, queries: set[str], corpus: set[str]) -> None:
    for query, documents in qrels.items():
        if query not in queries:
            raise DataError(
                f"{folder}/qrels judges the query {query!r}, which queries.jsonl does not have."
            )
        unknown = next((document for document in documents if document not in corpus), None)
        if unknown is not None:
            raise DataError(
                f"{folder}/qrels judges the document {unknown!r} for the query {query!r}, and "
                "corpus.jsonl has no such document."
            )
    if not qrels:
        raise DataError(f"{folder}/qrels has no judgements; there is nothing to score.")


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"\s*-?\d+\s*", text) is not None
