"""From what a user writes after `--data` to documents with passages.

docs   docs:scipy   msmarco   msmarco:train   path/to/folder
"""

from __future__ import annotations

from pathlib import Path

from cde_core.errors import DataError
from cde_eval.probes.position import msmarco, pages
from cde_eval.probes.position.folders import folder_passages
from cde_eval.probes.position.passages import Passages, in_sections


def find_passages(asked: str, longest: int | None = None) -> Passages:
    """The documents and passages that a name or a folder stands for.

    Args:
        asked: "docs" (built-in pages), "docs:PACKAGE", "msmarco", "msmarco:SPLIT", or a folder.
        longest: Cut documents into sections of at most so many characters, between paragraphs.

    Raises:
        DataError: If there is no such data, or it cannot be read.
        TaskError: If there is no documentation of the package here.
    """
    kind, _, argument = asked.partition(":")
    if kind == pages.NAME:
        return pages.documentation_pages(argument, longest)
    if kind == msmarco.NAME:
        if longest is not None:
            raise DataError(
                "MS MARCO's documents have no paragraphs to cut at; leave --longest out."
            )
        return msmarco.msmarco_passages(argument or "dev")
    if not Path(asked).is_dir():
        raise DataError(
            f"There is no data {asked!r}: it is no folder; write a folder with documents.jsonl and "
            f"passages.jsonl, {pages.NAME}, {pages.NAME}:PACKAGE or {msmarco.NAME}."
        )
    found = folder_passages(Path(asked))
    return found if longest is None else in_sections(found, longest)
