"""From one row of somebody's data set to a pair, by the names of its columns.

    {"query": …, "document": …}  ──▶ pair_of ──▶ Pair

Layouts differ in a few columns and are told apart by them, row by row, whatever the row comes from:

    columns                                   where it is used
    query, document [, negatives]             our own; with [domain], [score], [label], [scores]
    query, document [, negative] [, dataset]  nomic-embed-unsupervised-data and -supervised-data
    query, pos [, neg]                        bge-full-data, whose prompt and type are not used;
                                              with [pos_scores, neg_scores] for scores
    query, positive [, negative]              reranking sets such as mteb's
    anchor, positive [, negative]             sentence-transformers' triples, as of all-nli
    sentence1, sentence2 [, score] [, label]  STS and paraphrases
    premise, hypothesis [, label]             natural language inference

A row with `text` alone is no pair, but serves where texts are paired with themselves (SimCSE).
`score` says how alike the two are, on any scale; `label` names a class; `scores` are a teacher's
logits of the document and of each negative, in this order.

Where there are several positives (a list), the first is the document, as in the authors' training
of cde-small-v1: a query then comes once, and no batch can hold two of its answers. Blank negatives
are left out, since any document beats them; a blank query or document makes the row a bad one.

Source: the data sets' own columns on the Hugging Face hub, and the authors' published data code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cde_core.train.data.pairs import Pair

LAYOUTS = (
    ("query", "document"),
    ("query", "pos"),
    ("query", "positive"),
    ("anchor", "positive"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
)
"""Columns of query and document; the first that a row has is its layout."""

TEXT = "text"
NEGATIVES = ("negatives", "negative", "neg")
DOMAINS = ("domain", "dataset")
SCORE, LABEL, SCORES, BGE_SCORES = "score", "label", "scores", ("pos_scores", "neg_scores")
COLUMNS = frozenset(
    {
        *(name for two in LAYOUTS for name in two),
        *(*NEGATIVES, *DOMAINS),
        *(SCORE, LABEL, SCORES, *BGE_SCORES, TEXT),
    }
)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no pair."""

    where: str
    """File and line."""

    why: str
    """What is wrong with it."""

    alone: Pair | None = None
    """Where it holds a text alone, that text with itself: no pair, unless those are wanted."""


class NotAPair(Exception):
    """What is wrong with a row, in words that follow the row's place."""


def is_layout(columns: Collection[str]) -> bool:
    """Whether rows with these columns can be pairs."""
    return _layout(columns) is not None


def _layout(columns: Collection[str]) -> tuple[str, str] | None:
    return next((two for two in LAYOUTS if all(name in columns for name in two)), None)


def pair_or_bad(row: object, domain: str, place: object, unit: str, number: int) -> Pair | BadRow:
    """The pair that a row holds, or what is wrong with row `number` of `place`."""
    try:
        return pair_of(row, domain=domain)
    except NotAPair as error:
        return BadRow(f"{place}, {unit} {number}", str(error), _alone(row, domain))


def _alone(row: object, domain: str) -> Pair | None:
    """The text of a row that has no columns of a pair, with itself."""
    if not isinstance(row, Mapping) or is_layout(row) or TEXT not in row:
        return None
    try:
        text = _text(row, TEXT)
        return Pair(text, text, domain=_domain(row) or domain)
    except NotAPair:
        return None


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
    layout = _layout(row)
    if layout is None:
        raise NotAPair(
            f"a pair needs the columns query and document (or pos), but this row has "
            f"{', '.join(map(str, row)) or 'none'}"
        )
    query, document = layout
    negatives, scores = _negatives(row)
    return Pair(
        query=_text(row, query),
        document=_document(row, document),
        negatives=negatives,
        domain=_domain(row) or domain,
        score=None if row.get(SCORE) is None else _number(row[SCORE], SCORE),
        label=_label(row),
        scores=scores,
    )


def _document(row: Mapping[str, Any], name: str) -> str:
    """The text, or the first of a list of texts."""
    found = row[name]
    if name == "pos" or (name == "positive" and isinstance(found, list)):
        if not isinstance(found, list) or not found:
            raise NotAPair(f"{name} must be a list that begins with a text, not {_shown(found)}")
        return _text({name: found[0]}, name)
    return _text(row, name)


def _negatives(row: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Hard negatives that are not blank; a teacher's scores of the document and of them."""
    name, texts = next(((n, row[n]) for n in NEGATIVES if row.get(n) is not None), ("", []))
    if name == "negative" and isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise NotAPair(f"{name} must be a list of texts, not {_shown(texts)}")
    kept = [number for number, text in enumerate(texts) if text.strip()]
    negatives = tuple(_valid(texts[number], name) for number in kept)
    scores = _scores(row)
    if scores is None:
        return negatives, ()
    if not isinstance(scores, list) or len(scores) != 1 + len(texts):
        raise NotAPair(
            f"{SCORES} must be a list of {1 + len(texts)} numbers, one for the document and one "
            f"for each negative, not {_shown(scores)}"
        )
    numbers = [_number(one, SCORES) for one in scores]
    return negatives, (numbers[0], *(numbers[1 + number] for number in kept))


def _scores(row: Mapping[str, Any]) -> Any:
    """What should be a list of a teacher's scores; None if there is none."""
    of_documents, of_negatives = (row.get(name) for name in BGE_SCORES)
    if row.get(SCORES) is None and of_documents and isinstance(of_negatives, list):
        return [of_documents[0], *of_negatives] if isinstance(of_documents, list) else of_documents
    return row.get(SCORES)


def _label(row: Mapping[str, Any]) -> str | None:
    label = row.get(LABEL)
    if label is None:
        return None
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise NotAPair(f"{LABEL} must be a text or a whole number, not {_shown(label)}")
    return _valid(label, LABEL) if isinstance(label, str) else str(label)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotAPair(f"{name} must be a number, not {_shown(value)}")
    return float(value)


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
