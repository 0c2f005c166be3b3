"""MS MARCO documents, and the passages of its other collection that are found in them.

    document judged relevant ─┐
                              ├▶ passage inside the document? ──▶ its offsets
    passage judged relevant  ─┘

Both collections have the same queries. The texts come through the package ir_datasets, which
downloads gigabytes once; documents stay on disk, and are read when they are asked for.

Source: Coelho et al. (2024), section 4.2, who found 1,130 queries; https://ir-datasets.com
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from cde_core.errors import DataError
from cde_eval.probes.position.passages import Passage, Passages

NAME = "msmarco"


def msmarco_passages(split: str = "dev") -> Passages:
    """The whole document collection, and the passages that were found in it.

    Args:
        split: dev or train.

    Raises:
        DataError: If ir_datasets is not installed, or has no such split.
    """
    try:
        import ir_datasets  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise DataError(
            "MS MARCO is read through the package ir_datasets; install it: pip install ir_datasets."
        ) from error
    try:
        documents = ir_datasets.load(f"msmarco-document/{split}")
        passages = ir_datasets.load(f"msmarco-passage/{split}")
    except KeyError as error:
        raise DataError(f"MS MARCO has no split {split!r}; write msmarco:dev or :train.") from error
    bodies, texts = documents.docs_store(), passages.docs_store()
    rows = {one.doc_id: row for row, one in enumerate(documents.docs_iter())}
    found = found_passages(
        documents.queries_iter(),
        documents.qrels_iter(),
        passages.qrels_iter(),
        body=lambda key: str(bodies.get(key).body),
        text=lambda key: str(texts.get(key).text),
        row=rows.__getitem__,
    )
    return Passages(f"{NAME}:{split}", Bodies(documents), tuple(found), version=f"1/{split}")


def found_passages(
    queries: Iterable[Any],
    document_qrels: Iterable[Any],
    passage_qrels: Iterable[Any],
    *,
    body: Callable[[str], str],
    text: Callable[[str], str],
    row: Callable[[str], int],
) -> Iterator[Passage]:
    """Relevant passages that stand in the relevant document of the same query, to the character.

    Args:
        queries: Their `query_id` and `text`.
        document_qrels: `query_id`, `doc_id`, `relevance`; a query's first document counts.
        passage_qrels: The same of the passage collection.
        body: The text of a document.
        text: The text of a passage.
        row: The row of a document in the corpus.
    """
    document_of: dict[str, str] = {}
    for judged in document_qrels:
        if judged.relevance > 0:
            document_of.setdefault(judged.query_id, judged.doc_id)
    passages_of: dict[str, list[str]] = {}
    for judged in passage_qrels:
        if judged.relevance > 0 and judged.query_id in document_of:
            passages_of.setdefault(judged.query_id, []).append(judged.doc_id)
    for query in queries:
        for key in passages_of.get(query.query_id, ()):
            wanted, document = text(key).strip(), document_of[query.query_id]
            start = body(document).find(wanted) if wanted else -1
            if start >= 0:
                end = start + len(wanted)
                yield Passage(query.query_id, query.text, row(document), start, end)
                break


class Bodies(Sequence[str]):
    """The bodies of a document collection, read from disk when they are asked for."""

    def __init__(self, documents: Any) -> None:
        self._documents = documents

    def __len__(self) -> int:
        return int(self._documents.docs_count())

    def __iter__(self) -> Iterator[str]:
        for document in self._documents.docs_iter():
            yield str(document.body)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        found = self._documents.docs_iter()[row]
        return str(found.body) if isinstance(row, int) else [str(one.body) for one in found]
