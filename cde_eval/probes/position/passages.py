"""Documents, and where in them the passage stands that answers a query.

    built-in pages · a folder of JSONL · MS MARCO ──▶ Passages ──▶ sections, chosen ──▶ probes

Offsets count characters, so a passage is `text[start:end]` and can be moved without a model's
tokenizer having a say.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest

import numpy as np

PARAGRAPH_END = re.compile(r"\n\n+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A query, and the passage that answers it."""

    id: str
    """Of the query."""

    query: str

    document: int
    """Row of its document."""

    start: int
    """Offset of its first character in the document."""

    end: int
    """Offset after its last character."""


@dataclass(frozen=True)
class Passages:
    """A corpus, and the passages of it that somebody asked for."""

    name: str
    """For people, and in results: docs, squad."""

    documents: Sequence[str]
    """Texts, without title: what stands in front would be at the beginning always."""

    passages: tuple[Passage, ...]

    version: str = ""
    """Names the exact content where reading all of it would take long."""

    @cached_property
    def revision(self) -> str:
        """Short hash of documents and passages."""
        digest = hashlib.sha256(self.version.encode())
        for text in () if self.version else self.documents:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        for passage in self.passages:
            digest.update(repr(passage).encode("utf-8", "surrogatepass"))
        return f"sha256-{digest.hexdigest()[:12]}"

    def movable(self) -> Passages:
        """Only passages that fill at most half of their document: others hardly move."""
        return replace(
            self,
            passages=tuple(
                one
                for one in self.passages
                if 2 * (one.end - one.start) <= len(self.documents[one.document])
            ),
        )

    def chosen(self, most: int | None, *, seed: int = 0) -> Passages:
        """At most so many queries, by chance, from as many documents as possible.

        Queries of one document are not independent of each other, so every document gives one
        query before any gives a second.
        """
        if most is None or most >= len(self.passages):
            return self
        order = np.random.default_rng(seed).permutation(len(self.passages))
        by_document: dict[int, list[Passage]] = defaultdict(list)
        for row in order:
            passage = self.passages[int(row)]
            by_document[passage.document].append(passage)
        in_turn = chain.from_iterable(zip_longest(*by_document.values()))
        taken = [passage for passage in in_turn if passage is not None][:most]
        return replace(self, passages=tuple(taken))


def in_sections(whole: Passages, longest: int) -> Passages:
    """Every document cut into sections of consecutive paragraphs, each a document by itself.

    A section is as long as it may be; a paragraph or passage that is longer by itself stays whole.

    Args:
        whole: Documents whose paragraphs end with an empty line.
        longest: Characters of a section.
    """
    asked: dict[int, list[Passage]] = defaultdict(list)
    for passage in whole.passages:
        asked[passage.document].append(passage)
    texts: list[str] = []
    passages = []
    for row, text in enumerate(whole.documents):
        cuts = list(_sections(text, asked[row], longest))
        for passage in asked[row]:
            number = next(n for n, (_, end) in enumerate(cuts) if passage.end <= end)
            start = cuts[number][0]
            passages.append(
                replace(
                    passage,
                    document=len(texts) + number,
                    start=passage.start - start,
                    end=passage.end - start,
                )
            )
        texts += [text[start:end] for start, end in cuts]
    return Passages(f"{whole.name}, sections of {longest:,}", texts, tuple(passages))


def _sections(text: str, passages: Sequence[Passage], longest: int) -> Iterator[tuple[int, int]]:
    """Start and end of each section; the empty line between two belongs to neither."""
    start = end = 0
    for here, there in _paragraphs(text, passages):
        if end > start and there - start > longest:
            yield start, end
            start = here
        end = there
    if end > start:
        yield start, end


def _paragraphs(text: str, passages: Sequence[Passage]) -> Iterator[tuple[int, int]]:
    """Start and end of each paragraph; a passage of several is one."""
    inside = {(one.start, one.end) for one in passages}
    start = 0
    for gap in PARAGRAPH_END.finditer(text):
        if not any(first < gap.end() and gap.start() < last for first, last in inside):
            yield start, gap.start()
            start = gap.end()
    if start < len(text):
        yield start, len(text)
