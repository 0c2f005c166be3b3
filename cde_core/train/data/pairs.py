"""Pairs of query and document on disk: written once as they stream by, read a few at a time.

    Iterable[Pair] ──▶ write_pairs ──▶ folder ──▶ Pairs.open ──▶ queries(rows), documents(rows), …

Training data is larger than memory, and training reads it in an order of its own. So all texts of
one kind stand in one memory-mapped file, and a batch costs what its own texts cost. A folder holds

    pairs.json                    format, digest, domains, and the size of every other file
    queries.utf8, .offsets        all queries (text_files.py); documents and negatives alike
    domains.numbers               domain of every pair, as a number
    negatives.first               number of every pair's first negative, and how many there are
    scores.numbers                how alike query and document are, of every pair
    labels.numbers                class of every pair, as a number; -1 for none
    teacher.documents, .negatives what a teacher scores every document and every negative

Numbers are little-endian, int64 but for domains and labels (int32) and scores (float64, NaN for
none). What no pair has takes no room: its file is empty. The digest is that of the content in its
order, whatever it was read from, so all that is derived from pairs can be kept under it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import shutil
import struct
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import DataError
from cde_core.train.data.text_files import (
    BUFFER,
    INT64,
    AnyTexts,
    JoinedTexts,
    Numbers,
    PickedTexts,
    Texts,
    TextWriter,
    mapped,
    new_file,
)

FORMAT = "cde_core pairs 2"
ABOUT = "pairs.json"
UNFINISHED = ".unfinished"

INT32, FLOAT64 = struct.Struct("<i"), struct.Struct("<d")
NO_LABEL, NO_SCORE = -1, math.nan
IS_NEGATIVE, IS_DOCUMENT = "0", "1"  # labels of pairs apart
PAIRS_AT_ONCE = 1_024  # read together when all are


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a document that answers it."""

    query: str
    document: str

    negatives: tuple[str, ...] = ()
    """Documents that look like answers and are none ("hard negatives")."""

    domain: str = ""
    """Where it comes from; batches do not mix domains unless asked."""

    score: float | None = None
    """How alike the two are, on whatever scale the data have; None: nobody says."""

    label: str | None = None
    """Class of the two together, such as "entailment"; None: nobody says."""

    scores: tuple[float, ...] = ()
    """A teacher's scores (logits) of the document and of each negative; none: nobody says."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """N pairs with M hard negatives between them, in a folder; never all in memory."""

    folder: Path
    """Where `write_pairs` put them."""

    digest: str
    """The sha256 of all pairs in order; equal digests mean equal pairs."""

    domains: tuple[str, ...]
    """Names of domains, in the order in which they first come."""

    domain_of: NDArray[np.int32]
    """Every pair's domain, as a number into `domains` (N,)."""

    first_negative: NDArray[np.int64]
    """Pair i's negatives are those from number first_negative[i] up to, and without,
    first_negative[i + 1] (N + 1,)."""

    labels: tuple[str, ...]
    """Names of classes, in the order in which they first come."""

    scores: NDArray[np.float64]
    """How alike the two of every pair are (N,), NaN where nobody says; (0,) if nobody ever does."""

    label_of: NDArray[np.int32]
    """Every pair's class, as a number into `labels` (N,), -1 where nobody says; or (0,)."""

    teacher_of_documents: NDArray[np.float64]
    """A teacher's score of every document (N,), NaN where it has none; or (0,)."""

    teacher_of_negatives: NDArray[np.float64]
    """The same of every negative (M,); or (0,)."""

    _queries: AnyTexts
    _documents: AnyTexts
    _negatives: AnyTexts

    @classmethod
    def open(cls, folder: Path) -> Pairs:
        """Open what `write_pairs` wrote.

        Raises:
            DataError: If the folder holds no pairs, or a file of it is not of the size it should
                have.
        """
        digest, domains, labels = _read_about(folder)
        return cls(
            folder=folder,
            digest=digest,
            domains=domains,
            domain_of=mapped(folder / "domains.numbers", "<i4"),
            first_negative=mapped(folder / "negatives.first", "<i8"),
            labels=labels,
            scores=mapped(folder / "scores.numbers", "<f8"),
            label_of=mapped(folder / "labels.numbers", "<i4"),
            teacher_of_documents=mapped(folder / "teacher.documents", "<f8"),
            teacher_of_negatives=mapped(folder / "teacher.negatives", "<f8"),
            _queries=Texts(folder, "queries"),
            _documents=Texts(folder, "documents"),
            _negatives=Texts(folder, "negatives"),
        )

    def __len__(self) -> int:
        return len(self.domain_of)

    def __getitem__(self, row: int) -> Pair:
        """One pair; rows below 0 count from the end."""
        row = range(len(self))[row]
        return next(self._some(row, row + 1))

    def __iter__(self) -> Iterator[Pair]:
        for start in range(0, len(self), PAIRS_AT_ONCE):
            yield from self._some(start, min(start + PAIRS_AT_ONCE, len(self)))

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Whether somebody says how alike the two of a pair are (N,)."""
        return self._known(~np.isnan(self.scores))

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether a pair has a class (N,)."""
        return self._known(self.label_of != NO_LABEL)

    @property
    def taught(self) -> NDArray[np.bool_]:
        """Whether a teacher scored a pair's document, and its negatives with it (N,)."""
        return self._known(~np.isnan(self.teacher_of_documents))

    def _known(self, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return known if len(known) else np.zeros(len(self), dtype=np.bool_)

    def queries(self, rows: Numbers) -> list[str]:
        """Queries of some pairs, in the order asked for.

        Raises:
            IndexError: If a row is below 0 or not below N.
        """
        return self._queries.read(rows)

    def documents(self, rows: Numbers) -> list[str]:
        """Documents of some pairs; otherwise like `queries`."""
        return self._documents.read(rows)

    def negatives(self, numbers: Numbers) -> list[str]:
        """Hard negatives by their numbers among all M, which `first_negative` tells."""
        return self._negatives.read(numbers)

    def borrowing(self, negatives: NDArray[np.int64]) -> Pairs:
        """The same pairs, whose only negatives are documents of other pairs.

        Args:
            negatives: Those pairs (N, n); -1 fills places that are left.
        """
        taken = negatives >= 0
        content = np.ascontiguousarray(negatives, dtype="<i8").tobytes()
        return dataclasses.replace(
            self,
            digest=hashlib.sha256(self.digest.encode() + content).hexdigest(),
            first_negative=np.concatenate(([0], np.cumsum(taken.sum(axis=1)))),
            teacher_of_documents=np.empty(0),  # whose scores are of other negatives
            teacher_of_negatives=np.empty(0),
            _negatives=PickedTexts(self._documents, negatives[taken]),
        )

    def apart(self) -> Pairs:
        """Every document, and every hard negative, as a pair of its own with its query.

        There are N + M of them, without negatives: of each pair first its document, whose label is
        "1", and then its negatives, whose label is "0". Other judgements are left out.
        """
        numbers, negatives = np.arange(len(self)), np.diff(self.first_negative)
        of_documents = np.zeros(len(self) + int(self.first_negative[-1]), dtype=np.bool_)
        of_documents[numbers + self.first_negative[:-1]] = True
        pair_of = np.repeat(numbers, 1 + negatives)
        text_of = np.empty_like(pair_of)
        text_of[of_documents] = numbers
        text_of[~of_documents] = len(self) + np.arange(self.first_negative[-1])
        texts = JoinedTexts(self._documents, len(self), self._negatives)
        return dataclasses.replace(
            self,
            digest=hashlib.sha256(f"apart {self.digest}".encode()).hexdigest(),
            domain_of=self.domain_of[pair_of],
            first_negative=np.zeros(len(pair_of) + 1, np.int64),
            labels=(IS_NEGATIVE, IS_DOCUMENT),
            label_of=of_documents.astype(np.int32),
            scores=np.empty(0),
            teacher_of_documents=np.empty(0),
            teacher_of_negatives=np.empty(0),
            _queries=PickedTexts(self._queries, pair_of),
            _documents=PickedTexts(texts, text_of),
            _negatives=PickedTexts(self._negatives, np.empty(0, np.int64)),
        )

    def _some(self, start: int, stop: int) -> Iterator[Pair]:
        """Pairs that stand beside each other."""
        first = self.first_negative[start : stop + 1].tolist()
        negatives = self.negatives(range(first[0], first[-1]))
        rows = range(start, stop)
        texts = zip(self.queries(rows), self.documents(rows), strict=True)
        for i, (query, document) in enumerate(texts):
            own = negatives[first[i] - first[0] : first[i + 1] - first[0]]
            domain = self.domains[self.domain_of[start + i]]
            yield Pair(query, document, tuple(own), domain, *self._judged(start + i))

    def _judged(self, row: int) -> tuple[float | None, str | None, tuple[float, ...]]:
        """Score, label, and a teacher's scores of one pair."""
        score, label, scores = NO_SCORE, NO_LABEL, (NO_SCORE,)
        if len(self.scores):
            score = float(self.scores[row])
        if len(self.label_of):
            label = int(self.label_of[row])
        if len(self.teacher_of_documents):
            negatives = slice(self.first_negative[row], self.first_negative[row + 1])
            of_negatives = self.teacher_of_negatives[negatives].tolist()
            scores = (float(self.teacher_of_documents[row]), *of_negatives)
        return (
            None if math.isnan(score) else score,
            None if label == NO_LABEL else self.labels[label],
            () if math.isnan(scores[0]) else scores,
        )


def write_pairs(pairs: Iterable[Pair], folder: Path) -> Pairs:
    """Write pairs as they come, holding none of them, and open the folder.

    It appears whole or not at all; an older folder of pairs is replaced.

    Raises:
        DataError: If a text is no valid Unicode, the folder holds something else, or it cannot be
            written.
    """
    folder = Path(folder).resolve()  # "." has no name of its own, beside which to write
    require_room_for_pairs(folder)
    unfinished = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}{UNFINISHED}")
    try:
        unfinished.mkdir(parents=True)
        with _Writer(unfinished) as writer:
            for pair in pairs:
                writer.add(pair)
        _write_about(
            unfinished,
            digest=writer.digest.hexdigest(),
            domains=list(writer.domains),
            labels=list(writer.labels),
        )
        _put_in_place(unfinished, folder)
    except OSError as error:
        raise _cannot_be_written(folder, error) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Pairs.open(folder)


def require_room_for_pairs(folder: Path) -> None:
    """Before work starts: a folder is new, or of pairs, or empty.

    Raises:
        DataError: If it holds something else, or is no folder.
    """
    try:
        if folder.exists() and not (folder / ABOUT).is_file() and any(folder.iterdir()):
            raise DataError(
                f"{folder} holds something else than pairs; name a new folder for them."
            )
    except OSError as error:
        raise _cannot_be_written(folder, error) from error


def _cannot_be_written(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"Pairs cannot be written to {folder} ({error.strerror or error}); make room there, or "
        "name another folder."
    )


class _Writer:
    """All files of a folder but the last; use it in a `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.digest = hashlib.sha256()
        self.domains: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self._files = ExitStack()
        self._queries = TextWriter(folder, "queries", self._files)
        self._documents = TextWriter(folder, "documents", self._files)
        self._negatives = TextWriter(folder, "negatives", self._files)
        self._domain_of = self._files.enter_context(new_file(folder / "domains.numbers"))
        self._first_negative = self._files.enter_context(new_file(folder / "negatives.first"))
        self._first_negative.write(INT64.pack(0))
        self._scores, self._label_of, self._of_documents, self._of_negatives = (
            _Rarely(folder / name, nothing, self._files)
            for name, nothing in (
                ("scores.numbers", FLOAT64.pack(NO_SCORE)),
                ("labels.numbers", INT32.pack(NO_LABEL)),
                ("teacher.documents", FLOAT64.pack(NO_SCORE)),
                ("teacher.negatives", FLOAT64.pack(NO_SCORE)),
            )
        )

    def __enter__(self) -> _Writer:
        self._files.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, traceback)

    def add(self, pair: Pair) -> None:
        texts = [self._encoded(text) for text in _texts_of(pair)]
        # Lengths before texts, so that no two sequences of pairs give the same bytes.
        lengths = b"".join(INT64.pack(len(text)) for text in texts)
        self.digest.update(INT64.pack(len(texts)) + lengths + b"".join(texts))
        _, query, document, *negatives = texts
        self._queries.add(query)
        self._documents.add(document)
        for negative in negatives:
            self._negatives.add(negative)
        number = self.domains.setdefault(pair.domain, len(self.domains))
        self._domain_of.write(INT32.pack(number))
        self._first_negative.write(INT64.pack(self._negatives.count))
        self._add_judged(pair)

    def _add_judged(self, pair: Pair) -> None:
        if pair.scores and len(pair.scores) != 1 + len(pair.negatives):
            raise DataError(
                f"Pair {self._queries.count} has {len(pair.scores)} scores for a document and "
                f"{len(pair.negatives)} negatives; give one for each, or none."
            )
        score = None if pair.score is None else FLOAT64.pack(pair.score)
        label = None
        if pair.label is not None:
            label = INT32.pack(self.labels.setdefault(pair.label, len(self.labels)))
        teacher: list[bytes | None] = [FLOAT64.pack(one) for one in pair.scores]
        teacher = teacher or [None] * (1 + len(pair.negatives))
        self._scores.add(score)
        self._label_of.add(label)
        self._of_documents.add(teacher[0])
        for one in teacher[1:]:
            self._of_negatives.add(one)
        if pair.score is not None or pair.label is not None or pair.scores:
            said = json.dumps([pair.score, pair.label, pair.scores]).encode()
            # No pair has fewer than no texts, so this cannot be mistaken for the next pair.
            self.digest.update(INT64.pack(-len(said)) + said)

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"Pair {self._queries.count + 1} has a text that is no valid Unicode "
                f"({error.reason} at character {error.start}); mend it in the source."
            ) from None


class _Rarely:
    """A file with a number per pair, or with nothing as long as no pair has one."""

    def __init__(self, path: Path, nothing: bytes, files: ExitStack) -> None:
        path.touch(exist_ok=False)
        self._path, self._nothing, self._files = path, nothing, files
        self._skipped = 0
        self._file: BinaryIO | None = None

    def add(self, number: bytes | None) -> None:
        if self._file is None:
            if number is None:
                self._skipped += 1
                return
            self._file = self._files.enter_context(self._path.open("wb", buffering=BUFFER))
            for _ in range(self._skipped):
                self._file.write(self._nothing)
        self._file.write(self._nothing if number is None else number)


def _texts_of(pair: Pair) -> tuple[str, ...]:
    return (pair.domain, pair.query, pair.document, *pair.negatives)


def _write_about(folder: Path, **fields: Any) -> None:
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    about = {"format": FORMAT, **fields, "files": sizes}
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (folder / ABOUT).write_text(text + "\n", encoding="utf-8")


def _read_about(folder: Path) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Digest, domains and labels, once every file is found to be as long as it should be."""
    file = folder / ABOUT
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        kind, sizes = about["format"], dict(about["files"])
        digest, domains = str(about["digest"]), tuple(about["domains"])
        labels = tuple(about.get("labels", ()))
    except OSError:
        raise DataError(f"{folder} holds no pairs: it has no {ABOUT}; name another.") from None
    except (ValueError, LookupError, TypeError):
        raise DataError(f"{file} is damaged; remove {folder} and make the pairs again.") from None
    if kind != FORMAT:
        raise DataError(f"{file} is of the format {kind!r}, not {FORMAT!r}; make the pairs again.")
    for name, size in sizes.items():
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found:,} bytes, not {size:,}"
            raise DataError(f"{folder / name} {state}; remove {folder} and make the pairs again.")
    return digest, domains, labels


def _put_in_place(unfinished: Path, folder: Path) -> None:
    """Rename a finished folder; whoever has mapped the files of an older one keeps them."""
    for path in unfinished.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # a size that is right says nothing after a power cut otherwise
        finally:
            os.close(descriptor)
    if folder.exists():
        older = unfinished.with_name(f"{unfinished.name}.older{UNFINISHED}")
        folder.rename(older)
        unfinished.rename(folder)
        shutil.rmtree(older, ignore_errors=True)
    else:
        unfinished.rename(folder)
