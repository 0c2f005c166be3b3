"""Pages of documentation whose sections may stand in any order: the input that needs no download.

    pairs of one subpackage ──▶ sections, in the order of their names ──▶ pages of some of them

A page of a reference manual describes several objects, one after another, and the order of their
descriptions is no part of what it says. The summary of an object is the query; the section with
the rest of its documentation is the passage that answers it, which is known without a judge.
"""

from __future__ import annotations

from itertools import groupby

from cde_core.errors import DataError
from cde_eval.probes.position.passages import Passage, Passages, in_sections
from cde_eval.tasks.documentation import DocPair, load_documentation

NAME = "docs"

LONGEST_PAGE = 4_000
"""Characters, if nobody says otherwise: about a thousand tokens."""

FEWEST_SECTIONS = 3
"""Of a page; with fewer there is hardly another place to be."""


def documentation_pages(domain: str = "", longest: int | None = None) -> Passages:
    """Built-in pages, of one package or of all.

    Args:
        domain: The package; "" for all.
        longest: Characters of a page, about. Sections longer than a third of it are left out.

    Raises:
        TaskError: If there is no documentation of the package here.
        DataError: If so short a page has no room for three sections of any subpackage.
    """
    documentation = load_documentation()
    pairs = documentation.in_domain(domain) if domain else documentation.pairs
    longest = longest or LONGEST_PAGE
    short = [pair for pair in pairs if FEWEST_SECTIONS * len(pair.document) <= longest]
    whole = _manuals(sorted(short, key=_place))
    pages = _with_enough_sections(in_sections(whole, longest))
    if not pages.passages:
        raise DataError(
            f"Pages of {longest} characters hold no {FEWEST_SECTIONS} sections; allow longer ones."
        )
    name = f"{NAME}:{domain}" if domain else NAME
    if longest != LONGEST_PAGE:
        name += f", sections of {longest:,}"
    return Passages(name, pages.documents, pages.passages)


def _place(pair: DocPair) -> tuple[str, str, str]:
    return pair.domain, pair.subpackage, pair.id


def _manuals(pairs: list[DocPair]) -> Passages:
    """One text per subpackage, every section of it a passage."""
    texts = []
    passages = []
    for row, (_, group) in enumerate(groupby(pairs, key=lambda pair: _place(pair)[:2])):
        text = ""
        for pair in group:
            section = pair.document.strip()
            start = len(text) + 2 * bool(text)
            text += "\n\n" * bool(text) + section
            passages.append(Passage(pair.id, pair.query, row, start, start + len(section)))
        texts.append(text)
    return Passages(NAME, texts, tuple(passages))


def _with_enough_sections(pages: Passages) -> Passages:
    sections = [0] * len(pages.documents)
    for passage in pages.passages:
        sections[passage.document] += 1
    kept = [row for row, count in enumerate(sections) if count >= FEWEST_SECTIONS]
    new_row = {row: number for number, row in enumerate(kept)}
    return Passages(
        pages.name,
        [pages.documents[row] for row in kept],
        tuple(
            Passage(one.id, one.query, new_row[one.document], one.start, one.end)
            for one in pages.passages
            if one.document in new_row
        ),
    )
