"""Every exhibit of the report, in the order of its page."""

from __future__ import annotations

from cde_eval.report import (
    choices,
    context_curves,
    context_space,
    data_sets,
    difficulty,
    domains,
    figures,
    geometry,
    idf,
    leaderboard,
    long_documents,
    neighbours,
    position,
    published,
    rescored,
    tables,
)
from cde_eval.report.exhibits import Exhibit

EXHIBITS = (
    *(figures.EXHIBITS + tables.EXHIBITS + leaderboard.EXHIBITS),
    *(published.EXHIBITS + rescored.EXHIBITS + data_sets.EXHIBITS),
    *(domains.EXHIBITS + context_curves.EXHIBITS + idf.EXHIBITS + context_space.EXHIBITS),
    *(choices.EXHIBITS + difficulty.EXHIBITS + neighbours.EXHIBITS),
    *(position.EXHIBITS + long_documents.EXHIBITS),
    *geometry.EXHIBITS,
)


def all_exhibits() -> tuple[Exhibit, ...]:
    """The exhibits of every module that has some; the page groups them by section."""
    return EXHIBITS
