"""Lists of candidates as TREC run files, which other tools read as well.

    # Q0 {"retriever":…,"sha256":…} 0 0 cde-eval      the header
    query Q0 document rank score cde-eval             a line per candidate, best first

Candidates that a retriever found are an experiment's input, so a file says which retriever found
them, in which data and how deep, and carries a checksum of its lines. A run has six columns and no
comments; trec_eval, pytrec_eval and ir_measures stumble over one. So the header is a line like the
others: the ranking of a query `#`, which nobody has judged, and which they therefore leave out.
(ranx wants the same queries on both sides: `make_comparable=True`.)

Format: the "results file" of trec_eval, https://github.com/usnistgov/trec_eval
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from cde_core.errors import DataError
from cde_eval.results import write_atomically
from cde_eval.vectors import Vectors

FORMAT = 1
TAG = "cde-eval"
HEADER_QUERY = "#"
COLUMNS = ("query", "Q0", "document", "rank", "score", "tag")

Candidate = tuple[str, float]
"""A document and its score."""

Codes = npt.NDArray[np.int32]
"""Names as numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What lists of candidates were made from."""

    retriever: str
    """Its name, as results are filed under it."""
    retriever_revision: str
    """Names the exact weights."""
    settings: dict[str, str]
    """Every other choice that decides the lists: context policy, protocol, precision."""
    task: str
    split: str
    subset: str
    data_revision: str
    """Names the exact data of the task."""
    data_hash: str
    """Hash of the files behind it; "" where `data_revision` already is one."""
    depth: int
    """Candidates per query; fewer only where a corpus has no more."""
    excludes_own_id: bool
    """Whether a document with the id of its query was left out."""


@dataclass(frozen=True, slots=True)
class CandidateLists:
    """The candidates of each query, and what they were made from."""

    header: RunHeader
    lists: Mapping[str, Sequence[Candidate]]
    """For each query its candidates with their scores, best first."""
    _checksum: str = field(default="", repr=False, compare=False)

    def top(self, depth: int) -> dict[str, list[str]]:
        """The best `depth` documents of each query, best first."""
        return {
            query: [document for document, _ in candidates[:depth]]
            for query, candidates in self.lists.items()
        }

    @property
    def sha256(self) -> str:
        """Checksum of the lists as a file has them, whatever its header says."""
        if self._checksum:
            return self._checksum
        digest = hashlib.sha256()
        for lines in _body(self.lists):
            digest.update(lines)
        return digest.hexdigest()


def write_run(path: Path, lists: CandidateLists) -> None:
    """Write lists as a run file, whole or not at all.

    Scores are rounded to float32, and those are read back exactly. A query without candidates has
    no lines, and is not there when the file is read.

    Raises:
        DataError: If the format cannot hold an id.
    """

    def write(part: Path) -> None:
        digest = hashlib.sha256()
        with part.open("wb") as file:
            file.write(_header_line(lists.header, "0" * 64))
            for lines in _body(lists.lists):
                digest.update(lines)
                file.write(lines)
            file.seek(0)
            file.write(_header_line(lists.header, digest.hexdigest()))  # of the same length

    write_atomically(path, write)


def read_run(path: Path) -> CandidateLists:
    """Read a run file that `write_run` wrote.

    Raises:
        DataError: If there is none, it is someone else's, or it is not what was written.
    """
    try:
        with path.open("rb") as file:
            header, checksum = _read_header(path, file)
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"The run file {path} cannot be read ({error.strerror}); check its name."
        ) from error
    if found != checksum:
        raise DataError(
            f"The run file {path} was cut or changed after it was written (its checksum differs); "
            "delete it, and the command that made it makes it again."
        )
    return CandidateLists(header, _read_lists(path), checksum)


def _header_line(header: RunHeader, checksum: str) -> bytes:
    content = {"format": FORMAT, **dataclasses.asdict(header), "sha256": checksum}
    text = json.dumps(content, separators=(",", ":")).replace(" ", "\\u0020")
    return f"{HEADER_QUERY} Q0 {text} 0 0 {TAG}\n".encode()


def _read_header(path: Path, file: BinaryIO) -> tuple[RunHeader, str]:
    line = file.readline()
    try:
        content: dict[str, Any] = json.loads(line.split()[2])
        checksum = str(content.pop("sha256"))
        del content["format"]
        header = RunHeader(**content)
        if _header_line(header, checksum) != line:
            raise ValueError("it is written otherwise")
        return header, checksum
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"The run file {path} does not begin with the header that cde-eval writes, so nothing "
            "says what its lists were made from; delete it, and the command that made it makes it "
            "again."
        ) from error


def _body(lists: Mapping[str, Sequence[Candidate]]) -> Iterator[bytes]:
    """The lines of each query."""
    for query, candidates in lists.items():
        documents = [document for document, _ in candidates]
        scores = np.array([score for _, score in candidates], dtype=np.float32)
        _check(query, documents, scores)
        texts = pa.array(scores).cast(pa.string()).to_pylist()  # shortest that is read back exactly
        lines = [
            f"{query} Q0 {document} {rank} {score} {TAG}\n"
            for rank, (document, score) in enumerate(zip(documents, texts, strict=True), 1)
        ]
        yield "".join(lines).encode()


def _check(query: str, documents: list[str], scores: Vectors) -> None:
    if query == HEADER_QUERY:
        raise DataError(f"A run file cannot hold a query {query!r}; give it another id.")
    if " ".join([query, *documents]).split() != [query, *documents]:  # the test of every reader
        wrong = next(one for one in (query, *documents) if one.split() != [one])
        raise DataError(
            f"A run file cannot hold the id {wrong!r}, since spaces separate its columns; give it "
            "an id without whitespace."
        )
    if len(set(documents)) < len(documents):
        raise DataError(f"A document is twice among the candidates of the query {query!r}.")
    if not np.isfinite(scores).all():
        raise DataError(f"A candidate of the query {query!r} has a score that is no finite number.")
    if (scores[1:] > scores[:-1]).any():
        raise ValueError(f"candidates of {query!r} are not best first")


class _ListsOfFile(Mapping[str, Sequence[Candidate]]):
    """Lists in 8 bytes per candidate; pairs are made of a list when it is asked for."""

    def __init__(
        self, names: list[str], documents: Codes, scores: Vectors, places: dict[str, slice]
    ) -> None:
        self._names = names
        self._documents = documents  # rows of `names`, shape (lines,)
        self._scores = scores  # shape (lines,)
        self._places = places

    def __getitem__(self, query: str) -> list[Candidate]:
        place = self._places[query]
        names = [self._names[row] for row in self._documents[place].tolist()]
        return list(zip(names, self._scores[place].tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _read_lists(path: Path) -> _ListsOfFile:
    """The lists of a file whose checksum is right, so that its lines need no more checks."""
    ids = pa.dictionary(pa.int32(), pa.string())
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=list(COLUMNS)),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types={"query": ids, "document": ids, "score": pa.float32()},
            include_columns=["query", "document", "score"],
            null_values=[],  # "NA" is an id like any other
        ),
    ).slice(1)
    documents, names = _codes(table["document"])
    places = _places(*_codes(table["query"]))
    return _ListsOfFile(names, documents, table["score"].to_numpy(), places)


def _codes(column: pa.ChunkedArray) -> tuple[Codes, list[str]]:
    """A column as numbers, shape (lines,), and the names that they number."""
    whole = column.unify_dictionaries().combine_chunks()
    return whole.indices.to_numpy(), whole.dictionary.to_pylist()


def _places(queries: Codes, names: list[str]) -> dict[str, slice]:
    """For each query, where its lines are: they stand together."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1)).tolist()
    ends = [*starts, len(queries)][1:]
    return {
        names[queries[start]]: slice(start, end) for start, end in zip(starts, ends, strict=True)
    }
