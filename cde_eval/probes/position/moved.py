"""Search for documents whose relevant passage was moved.

    unchanged corpus ──▶ embedded once ──▶ the best other documents of each query ─┐
    its own document, unchanged and with the passage at ten places ──▶ scored ─────┴▶ its rank

The paper moves the documents of all queries at once and retrieves eleven times. Several queries may
share a document here, which cannot have two passages at the beginning, so each query meets its own
document moved and all others as they are. Only a query's own document is embedded again.

Source: Coelho et al. (2024), section 4.2 and figure 1, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pytrec_eval

from cde_eval.encoders.kept import corpus_vectors
from cde_eval.encoders.protocol import Encoder, Ranker
from cde_eval.probes.position.moving import PLACES, Borders, Moved, moved_passages
from cde_eval.probes.position.passages import Passages
from cde_eval.probes.position.reading import reader_of, share_read
from cde_eval.probes.position.situations import (
    Situation,
    as_compared,
    document_of,
    query_of,
    read_situation,
    rows_as_compared,
)
from cde_eval.probes.table import ProbeTable
from cde_eval.progress import progress_bar
from cde_eval.ranking import Ranking, merged
from cde_eval.search import nearest
from cde_eval.vectors import Rows

PROBE = "position-moved"

DEPTH = 100
"""Documents per query."""

UNCHANGED = 0
"""The place of a passage that was not moved; the others count from 1."""

MEASURES = {
    "ndcg_at_10": "ndcg_cut_10",
    "mrr_at_100": "recip_rank",  # of rankings that end after 100 documents
    "recall_at_100": "recall_100",
}
"""Our names and trec_eval's."""


class _Search(Protocol):
    """Finds each query's best documents where its own has another text."""

    def rank(self, texts: Sequence[str]) -> Ranking: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPassages:
    """What is searched, and how passages are moved."""

    data: Passages
    """With the queries that are asked."""

    borders: Borders = "words"
    device: str = "cpu"
    about: dict[str, Any] = field(default_factory=dict)
    """What else decides the rows, for the table."""


def probe_moved(
    model: str, encoder: Encoder, plan: MovedPassages, todo: Sequence[Situation], output: Path
) -> pd.DataFrame:
    """Search with the passage at every place, in every situation; a killed run continues.

    Args:
        model: As it was asked for.
        encoder: The model.
        plan: What is searched.
        todo: Contexts to be in.
        output: Results folder.

    Returns:
        A row per situation, place and query: where the passage stood, how much of it the model
        read (empty where that is not known), and the measures.

    Raises:
        ContextError: If the encoder cannot work in a situation.
        TaskError: If it cannot search.
    """
    data = plan.data
    about = {
        "model": model,
        "model_name": encoder.name,
        "revision": encoder.revision,
        "settings": str(sorted(encoder.settings.items())),
        "data": data.name,
        "data_revision": data.revision,
        "queries": len(data.passages),
        "borders": plan.borders,
        **plan.about,
    }
    table = ProbeTable(output, PROBE, about, cell=["context", "draw", "place"])
    versions = [_versions(data, number, plan.borders) for number in range(len(data.passages))]
    with progress_bar(len(todo) * (PLACES + 1), "places") as tell:
        for situation in todo:
            search: _Search | None = None
            for place in range(PLACES + 1):
                if not table.has(**situation.cell, place=place):
                    search = search or _searcher(encoder, plan, situation)
                    moved = [of_query[place] for of_query in versions]
                    ranking = search.rank([one.text for one in moved])
                    rows = _rows(encoder, data, moved, ranking)
                    table.add(rows, **situation.cell, place=place)
                tell(1)
    return table.frame


def _versions(data: Passages, number: int, borders: Borders) -> list[Moved]:
    """A query's document, unchanged and then with its passage at every place."""
    passage = data.passages[number]
    text = data.documents[passage.document]
    unchanged = Moved(text, passage.start, float(passage.start))
    return [unchanged, *moved_passages(text, passage.start, passage.end, borders=borders)]


def _searcher(encoder: Encoder, plan: MovedPassages, situation: Situation) -> _Search:
    context = read_situation(encoder, situation, plan.data)
    if isinstance(encoder, Ranker):
        return _Ranked(encoder, context, plan.data)
    return _Embedded(encoder, context, plan.data, plan.device)


class _Embedded:
    """Search by vectors; the corpus is embedded once."""

    def __init__(self, encoder: Encoder, context: Any, data: Passages, device: str) -> None:
        self._encoder, self._context, self._purpose = encoder, context, document_of(data)
        self._own = own_rows(data)
        found = corpus_vectors(encoder, data.documents, self._purpose, context)
        asked = [passage.query for passage in data.passages]
        queries = encoder.encode(asked, purpose=query_of(data), context=context)
        self._queries = as_compared(encoder, queries)
        best = nearest(self._queries, rows_as_compared(encoder, found), DEPTH + 1, device=device)
        own = best.rows == self._own[:, None]
        self._others = Ranking(
            rows=np.where(own, -1, best.rows),
            scores=np.where(own, np.float32(-np.inf), best.scores),
        )

    def rank(self, texts: Sequence[str]) -> Ranking:
        vectors = self._encoder.encode(texts, purpose=self._purpose, context=self._context)
        scores = np.einsum("qd,qd->q", self._queries, as_compared(self._encoder, vectors))
        moved = Ranking(rows=self._own[:, None], scores=scores[:, None].astype(np.float32))
        return merged([self._others, moved], DEPTH)


class _Ranked:
    """Search by an encoder that ranks by itself.

    The moved documents stand behind the corpus, and each query may rank its own in place of the
    unchanged one. All places have the same lengths, so nothing but the place tells them apart.
    """

    def __init__(self, encoder: Ranker, context: Any, data: Passages) -> None:
        self._encoder, self._context, self._data = encoder, context, data
        self._own = own_rows(data)

    def rank(self, texts: Sequence[str]) -> Ranking:
        corpus = self._data.documents
        all_rows = np.arange(len(corpus))
        candidates = [
            np.append(all_rows[all_rows != own], len(corpus) + number)
            for number, own in enumerate(self._own)
        ]
        found = self._encoder.rank(
            [passage.query for passage in self._data.passages],
            [*corpus, *texts],
            top_k=DEPTH,
            candidates=candidates,
            context=self._context,
        )
        rows = np.where(found.rows >= len(corpus), self._own[:, None], found.rows)
        return Ranking(rows=rows, scores=found.scores)


def own_rows(data: Passages) -> Rows:
    """The row of each query's document."""
    return np.array([passage.document for passage in data.passages], dtype=np.int64)


def _rows(
    encoder: Encoder, data: Passages, moved: Sequence[Moved], ranking: Ranking
) -> list[dict[str, Any]]:
    read = reader_of(encoder, document_of(data))
    rows = []
    for passage, one, scores in zip(data.passages, moved, measured(data, ranking), strict=True):
        length = passage.end - passage.start
        share = None if read is None else share_read(read(one.text), one.start, one.start + length)
        seen = None if share is None else round(share, 3)
        rows.append({"query": passage.id, "start": one.start, "read": seen, **scores})
    return rows


def measured(data: Passages, ranking: Ranking) -> list[dict[str, float]]:
    """The measures of every query, by trec_eval; ranks are told as scores, so ties stay settled."""
    names = [f"q{number}" for number in range(len(data.passages))]
    qrels = {
        name: {str(passage.document): 1} for name, passage in zip(names, data.passages, strict=True)
    }
    run = {
        name: {str(row): float(DEPTH - rank) for rank, row in enumerate(rows) if row >= 0}
        for name, rows in zip(names, ranking.rows, strict=True)
    }
    asked = {"ndcg_cut.10", "recip_rank", "recall.100"}
    found = pytrec_eval.RelevanceEvaluator(qrels, asked).evaluate(run)
    return [
        {ours: round(found[name][theirs], 5) for ours, theirs in MEASURES.items()} for name in names
    ]
