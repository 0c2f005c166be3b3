"""A data set in BEIR layout as training pairs: the queries of its train split with their answers.

    queries.jsonl ─┐
    corpus.jsonl  ─┼──▶ BeirSource ──▶ one pair a query, its best judged document first in the file
    qrels/train.tsv ─┘

A query comes once, with the document of its highest grade: further answers would be scored against
it as negatives. The domain is the folder's name, so that a batch has one corpus, as an evaluation
has. The test split is never read.

Source: Thakur et al. (2021), BEIR, https://arxiv.org/abs/2104.08663
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cde_core.errors import DataError
from cde_core.train.data.pairs import Pair
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_layouts import BadRow, pair_or_bad

TRAIN = "qrels/train.tsv"


@dataclass(frozen=True, slots=True)
class _Answer:
    """The best judged document of a query."""

    document: str
    grade: int
    line: int
    """Of the judgements, where it stands."""


def is_beir(folder: Path) -> bool:
    """Whether a folder is laid out as BEIR's are, whatever splits it has."""
    return all((folder / name).exists() for name in ("corpus.jsonl", "queries.jsonl", "qrels"))


class BeirSource:
    """The train split of one BEIR folder."""

    def __init__(self, folder: Path) -> None:
        """Name a folder; nothing is read yet.

        Raises:
            DataError: If it has no train split.
        """
        if not (folder / TRAIN).is_file():
            found = ", ".join(sorted(p.name for p in (folder / "qrels").glob("*.tsv"))) or "none"
            raise DataError(
                f"{folder} has no {TRAIN} (qrels found: {found}); pairs are made of the train "
                "split alone, so add one, or name another source in data.sources."
            )
        self._folder = folder
        self._domain = folder.resolve().name

    def revision(self, revisions: Revisions) -> str:
        """Checksums of the three files, and the name, which is the domain."""
        files = ("corpus.jsonl", "queries.jsonl", TRAIN)
        return json.dumps([self._domain, *(revisions.of_file(self._folder / f) for f in files)])

    def read(self) -> Iterator[Pair | BadRow]:
        """A pair for every query that has an answer, in the order of the judgements.

        Raises:
            DataError: If a file is damaged, or has lines that are no such rows.
        """
        answers = self._answers()
        queries = self._texts("queries.jsonl", answers)
        documents = self._texts("corpus.jsonl", {answer.document for answer in answers.values()})
        place = self._folder / TRAIN
        for number, answer in answers.items():
            where = f"{place}, line {answer.line}"
            query = queries.get(number, BadRow(where, f"there is no query {number!r}"))
            document = documents.get(
                answer.document, BadRow(where, f"there is no document {answer.document!r}")
            )
            if isinstance(query, BadRow):
                yield query
            elif isinstance(document, BadRow):
                yield document
            else:
                row = {"query": query, "document": document}
                yield pair_or_bad(row, self._domain, place, "line", answer.line)

    def _answers(self) -> dict[str, _Answer]:
        answers: dict[str, _Answer] = {}
        for line, text in _lines(self._folder / TRAIN):
            fields = text.split("\t")
            if line == 1 and not _is_whole(fields[-1]):
                continue  # the header
            if len(fields) != 3 or not _is_whole(fields[2]):
                raise DataError(
                    f"{self._folder / TRAIN}, line {line}: expected query-id, corpus-id and a "
                    f"whole-number score separated by tabs, found {text!r}; mend the line."
                )
            query, document, grade = fields[0], fields[1], int(fields[2])
            best = answers[query].grade if query in answers else 0
            if grade > best:
                answers[query] = _Answer(document, grade, line)
        return answers

    def _texts(self, name: str, wanted: Collection[str]) -> dict[str, str | BadRow]:
        """Title and text of the rows whose ids are wanted, or what is wrong with a row's text."""
        texts: dict[str, str | BadRow] = {}
        for line, content in _lines(self._folder / name):
            try:
                row = json.loads(content)
                if row["_id"] in wanted:
                    texts[row["_id"]] = _text_of(row, f"{self._folder / name}, line {line}")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{self._folder / name}, line {line}: expected a JSON object with _id and "
                    f"text ({type(error).__name__}: {error}); mend the line."
                ) from None
        return texts


def _text_of(row: Mapping[str, Any], where: str) -> str | BadRow:
    text = row["text"]
    if not isinstance(text, str):
        return BadRow(where, f"text must be a text, not {repr(text)[:40]}")
    return f"{row.get('title') or ''} {text}".strip()


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    try:
        with file.open(encoding="utf-8-sig") as content:
            for number, line in enumerate(content, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}); copy it again.") from None


def _is_whole(text: str) -> bool:
    return text.strip().lstrip("-").isdecimal()
