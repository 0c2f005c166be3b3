"""Documents with marked passages, from a folder of two JSONL files.

    documents.jsonl   {"_id": "d1", "text": "…"}
    passages.jsonl    {"id": "q1", "query": "…", "document": "d1", "start": 0, "end": 120}

That is the layout for data of one's own. The files of SQuAD (articles.jsonl, pairs.jsonl: questions
with the paragraph of their article) and of QMSum (meetings.jsonl, positions.jsonl: questions with
the turns of a meeting that answer them) are read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cde_core.errors import DataError
from cde_eval.probes.position.passages import Passage, Passages

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the files and fields that hold documents and passages."""

    documents: str
    passages: str
    query: str
    document: str
    span: Callable[[Row], tuple[int, int] | None]
    """Start and end of the passage; None where there are several, which cannot be moved as one."""


def _only_span(row: Row) -> tuple[int, int] | None:
    spans = row["char_spans"]
    return (int(spans[0][0]), int(spans[0][1])) if len(spans) == 1 else None


LAYOUTS = (
    Layout(
        "documents.jsonl",
        "passages.jsonl",
        "query",
        "document",
        lambda row: (int(row["start"]), int(row["end"])),
    ),
    Layout(
        "articles.jsonl",
        "pairs.jsonl",
        "question",
        "article_id",
        lambda row: (int(row["paragraph_start"]), int(row["paragraph_end"])),
    ),
    Layout("meetings.jsonl", "positions.jsonl", "query", "meeting", _only_span),
)


def folder_passages(folder: Path) -> Passages:
    """Documents and passages of a folder; passages of documents that are not there are left out.

    Raises:
        DataError: If the folder has none of the layouts, a line cannot be read, an offset is
            outside its document, or nothing is left.
    """
    layout = _layout_of(folder)
    rows: dict[str, int] = {}
    texts: list[str] = []
    for place, row in _lines(folder / layout.documents):
        identity, text = (_field(row, name, place) for name in ("_id", "text"))
        if str(identity) in rows:
            raise DataError(f"{place}: the id {identity!r} is there twice.")
        rows[str(identity)] = len(texts)
        texts.append(str(text))
    passages = []
    for place, row in _lines(folder / layout.passages):
        document = rows.get(str(_field(row, layout.document, place)))
        if document is None:
            continue
        try:
            span = layout.span(row)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"{place}: no offsets of a passage ({error!r}).") from error
        if span is None:
            continue
        if not 0 <= span[0] < span[1] <= len(texts[document]):
            raise DataError(
                f"{place}: characters {span[0]} to {span[1]} are not a passage of a document of "
                f"{len(texts[document])}."
            )
        query = str(_field(row, layout.query, place))
        passages.append(Passage(str(_field(row, "id", place)), query, document, *span))
    if not passages:
        raise DataError(f"{folder / layout.passages} has no passage of {layout.documents}.")
    return Passages(folder.resolve().name, texts, tuple(passages))


def _layout_of(folder: Path) -> Layout:
    for layout in LAYOUTS:
        if all((folder / name).is_file() for name in (layout.documents, layout.passages)):
            return layout
    pairs = " or ".join(f"{layout.documents} and {layout.passages}" for layout in LAYOUTS)
    raise DataError(f"{folder} holds no documents with passages: it needs {pairs}.")


def _lines(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(f"{place}: not a JSON object ({error}).") from error
            if not isinstance(row, dict):
                raise DataError(f"{place}: not a JSON object.")
            yield place, row


def _field(row: Row, name: str, place: str) -> Any:
    if name not in row:
        raise DataError(f"{place}: there is no {name!r}.")
    return row[name]
