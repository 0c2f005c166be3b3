"""The documents of a search corpus as models read them: title, a space, text.

Small corpora become a list. Those that would fill memory as Python strings stay where mteb has
them, usually memory-mapped, and are read a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from cde_eval.contexts import titled

IN_MEMORY = 64 * 2**20
"""Bytes of columns up to which a corpus becomes a list."""

ROWS_AT_ONCE = 10_000


def corpus_texts(corpus: Any) -> Sequence[str]:
    """Documents of a retrieval corpus (a `datasets.Dataset`) as models read them.

    Column by column: mteb's own conversion goes row by row and takes seconds per 100,000.
    """
    texts = CorpusTexts(corpus)
    return texts if corpus.data.nbytes > IN_MEMORY else list(texts)


class CorpusTexts(Sequence[str]):
    """A corpus's documents, read when they are asked for."""

    def __init__(self, corpus: Any) -> None:
        columns = [name for name in ("title", "text") if name in corpus.column_names]
        self._rows = corpus.select_columns(columns).with_format(None)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), ROWS_AT_ONCE):
            yield from self[start : start + ROWS_AT_ONCE]

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        columns = self._rows[row]
        if isinstance(row, int):
            return titled(columns.get("title"), columns["text"])
        if "title" not in columns:
            return [text.strip() for text in columns["text"]]
        pairs = zip(columns["title"], columns["text"], strict=True)
        return [titled(title, text) for title, text in pairs]
