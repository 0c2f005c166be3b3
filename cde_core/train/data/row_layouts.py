"""From one row of somebody's data set to a pair, by the names of its columns.

    {"query": …, "document": …}  ──▶ pair_of ──▶ Pair

Layouts differ in three columns and are told apart by them, row by row, whatever the row comes from:

    columns                                   where it is used
    query, document [, negatives]             our own; with [domain]
    query, document [, negative] [, dataset]  nomic-embed-unsupervised-data and -supervised-data
    query, pos [, neg]                        bge-full-data, whose prompt and type are not used

Where there are several positives (`pos`), the first is the document, as in the authors' training of
cde-small-v1: a query then comes once, and no batch can hold two of its answers. Blank negatives are
left out, since any document beats them; a blank query or document makes the row a bad one.

Source: the data sets' own columns on the Hugging Face hub, and the authors' published data code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cde_core.train.data.pairs import Pair

QUERY = "query"
DOCUMENTS = ("document", "pos")
NEGATIVES = ("negatives", "negative", "neg")
DOMAINS = ("domain", "dataset")
COLUMNS = frozenset({QUERY, *DOCUMENTS, *NEGATIVES, *DOMAINS})


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no pair."""

    where: str
    """File and line."""

    why: str
    """What is wrong with it."""


class NotAPair(Exception):
    """What is wrong with a row, in words that follow the row's place."""


def is_layout(columns: Collection[str]) -> bool:
    """Whether rows with these columns can be pairs."""
    return QUERY in columns and any(name in columns for name in DOCUMENTS)


def pair_or_bad(row: object, domain: str, place: object, unit: str, number: int) -> Pair | BadRow:
    """The pair that a row holds, or what is wrong with row `number` of `place`."""
    try:
        return pair_of(row, domain=domain)
    except NotAPair as error:
        return BadRow(f"{place}, {unit} {number}", str(error))


def pair_of(row: object, *, domain: str) -> Pair:
    """The pair that a row holds.

    Args:
        row: A mapping from columns to values; anything else is no pair.
        domain: Its domain, where no column names one.

    Raises:
        NotAPair: If a column is missing, blank, or of the wrong type.
    """
    if not isinstance(row, Mapping):
        raise NotAPair(f"this is a {type(row).__name__}, not an object with columns")
    if not is_layout(row):
        raise NotAPair(
            f"a pair needs the columns query and document (or pos), but this row has "
            f"{', '.join(map(str, row)) or 'none'}"
        )
    return Pair(
        query=_text(row, QUERY),
        document=_document(row),
        negatives=_negatives(row),
        domain=_domain(row) or domain,
    )


def _document(row: Mapping[str, Any]) -> str:
    if "document" in row:
        return _text(row, "document")
    positives = row["pos"]
    if not isinstance(positives, list) or not positives:
        raise NotAPair(f"pos must be a list that begins with a text, not {_shown(positives)}")
    return _text({"pos": positives[0]}, "pos")


def _negatives(row: Mapping[str, Any]) -> tuple[str, ...]:
    for name in NEGATIVES:
        negatives = row.get(name)
        if negatives is None:
            continue
        if not isinstance(negatives, list) or not all(isinstance(n, str) for n in negatives):
            raise NotAPair(f"{name} must be a list of texts, not {_shown(negatives)}")
        return tuple(_valid(text, name) for text in negatives if text.strip())
    return ()


def _domain(row: Mapping[str, Any]) -> str:
    for name in DOMAINS:
        if row.get(name) is not None:
            domain = row[name]
            if not isinstance(domain, str):
                raise NotAPair(f"{name} must be a text, not {_shown(domain)}")
            return _valid(domain, name)
    return ""


def _text(row: Mapping[str, Any], name: str) -> str:
    text = row[name]
    if not isinstance(text, str):
        raise NotAPair(f"{name} must be a text, not {_shown(text)}")
    if not text.strip():
        raise NotAPair(f"{name} is empty")
    return _valid(text, name)


def _valid(text: str, name: str) -> str:
    """The text, unless it has half of a surrogate pair, which JSON allows and UTF-8 does not."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotAPair(f"{name} is no valid Unicode at character {error.start}") from None
    return text


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
