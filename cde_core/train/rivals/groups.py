"""Pairs whose documents compete: those of a domain, or all of them, with every text told once.

    Pairs ──▶ rows_by_domain ──▶ rows (n,) of each group ──▶ Group.of ──▶ Group
                                            distinct queries (Q,), distinct documents (P,)

A search over a corpus with copies finds the copies, so documents are told apart by their text and
numbered in the order in which they first come. Queries are too: whatever answers a query of the
same text is an answer, and no rival of the other answers.

Texts are told apart by eight bytes of their BLAKE2b. Of a hundred million distinct ones, two are
taken for each other with a probability of 0.0003. Some forty bytes a pair of a group stand in
memory; texts never do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cde_core.train.data.pairs import Pairs

Numbers = NDArray[np.int64]

TEXTS_AT_ONCE = 8_192
"""Texts that are read together to be told apart."""


@dataclass(frozen=True)
class Group:
    """n pairs with Q distinct queries and P distinct documents."""

    pairs: Pairs
    """All pairs, of which these are some."""

    number: int
    """Which group of the pairs this is, from 0."""

    domain: str
    """Name of their domain; empty where domains are mixed."""

    rows: Numbers
    """The pairs of the group (n,), rising."""

    query_of: Numbers
    """Each pair's query (n,), as a number below Q."""

    document_of: Numbers
    """Each pair's document (n,), as a number below P."""

    first_query: Numbers
    """Pair in which each distinct query first comes (Q,)."""

    first_document: Numbers
    """The same of documents (P,)."""

    @classmethod
    def of(cls, pairs: Pairs, rows: Numbers, *, number: int, domain: str) -> Group:
        """Read the texts of some pairs, and tell which are equal."""
        query_of, first_query = _told_apart(pairs.queries, rows)
        document_of, first_document = _told_apart(pairs.documents, rows)
        return cls(pairs, number, domain, rows, query_of, document_of, first_query, first_document)

    def queries(self, numbers: Numbers) -> list[str]:
        """Some distinct queries."""
        return self.pairs.queries(self.first_query[numbers])

    def documents(self, numbers: Numbers) -> list[str]:
        """Some distinct documents."""
        return self.pairs.documents(self.first_document[numbers])

    def are_answers(self, positions: Numbers, documents: Numbers) -> NDArray[np.bool_]:
        """Whether documents answer a pair's query, in this pair or in another (m, k).

        Args:
            positions: Pairs, as numbers below n (m,).
            documents: Distinct documents, a row for each of the pairs (m, k).
        """
        asked = self._key(self.query_of[positions][:, None], documents)
        place = np.searchsorted(self._answers, asked)
        found: NDArray[np.bool_] = self._answers[np.minimum(place, len(self._answers) - 1)] == asked
        return found

    @cached_property
    def _answers(self) -> Numbers:
        """Every distinct pair of query and document as one number, rising."""
        return np.unique(self._key(self.query_of, self.document_of))

    def _key(self, queries: Numbers, documents: Numbers) -> Numbers:
        return queries * len(self.first_document) + documents


def rows_by_domain(pairs: Pairs, *, across_domains: bool) -> list[tuple[str, Numbers]]:
    """Name and pairs of every domain that has any; or one group of all, without a name."""
    if across_domains:
        return [("", np.arange(len(pairs)))]
    order = np.argsort(pairs.domain_of, kind="stable")
    ends = np.cumsum(np.bincount(pairs.domain_of, minlength=len(pairs.domains)))
    parts = np.split(order, ends[:-1])
    return [(name, rows) for name, rows in zip(pairs.domains, parts, strict=True) if len(rows)]


def _told_apart(read: Callable[[Numbers], Sequence[str]], rows: Numbers) -> tuple[Numbers, Numbers]:
    """A number for the text of every row, and the row in which each text first comes."""
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), TEXTS_AT_ONCE):
        part = slice(start, start + TEXTS_AT_ONCE)
        keys[part] = [_key_of(text) for text in read(rows[part])]
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[of], rows[first[order]]


def _key_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
