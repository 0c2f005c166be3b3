"""Each query and its candidates in a context of their own: the candidates themselves.

    query, its candidates ──▶ the best `size` of them are read ──▶ all are ranked in that context

What surrounds a query's right answer is not the corpus but whatever else resembles the query, so
the authors' evaluation during training lent each query its own list. No vector serves two queries:
the whole list is embedded anew for each. Rankings are therefore written as they are finished, and
a killed run continues at the next query.

Source: `topk` in cde/lib/rerank.py of github.com/jxmorris12/cde.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from cde_core.text import Purpose
from cde_eval.encoders.protocol import Encoder, ReadsOnce
from cde_eval.progress import progress_bar
from cde_eval.ranking import Ranking
from cde_eval.vectors import Rows

RankAll = Callable[[str, list[str], Any], Ranking]
"""Ranks documents for one query in a context; the ranking's rows count among those documents."""


NOTHING = Ranking(rows=np.empty((1, 0), np.int64), scores=np.empty((1, 0), np.float32))


def rank_in_own_contexts(
    queries: Sequence[str],
    documents: Sequence[str],
    candidates: Sequence[Rows],
    *,
    read: Callable[[list[str]], Any],
    rank: RankAll,
    size: int | None,
    unfinished: Path | None = None,
) -> Ranking:
    """The ranking of every query's candidates, each in the context of its own.

    Args:
        queries: Query texts.
        documents: The corpus.
        candidates: For each query, rows of the corpus, best first.
        read: Reads documents and gives the context.
        rank: Ranks the candidates of one query.
        size: Candidates that are read, from the best; None for all.
        unfinished: File in which rankings are kept until all are there.
    """
    with (
        _kept_rankings(unfinished, queries, documents, candidates) as (rankings, file),
        progress_bar(len(queries), "queries") as tell,
    ):
        tell(len(rankings))
        for query, rows in list(zip(queries, candidates, strict=True))[len(rankings) :]:
            texts = [documents[int(row)] for row in rows]
            rankings.append(NOTHING)
            if texts:
                found = rank(query, texts, read(texts[:size]))
                rankings[-1] = Ranking(rows=rows[found.rows], scores=found.scores)
            if file is not None:
                file.write(_line(rankings[-1]))
                file.flush()
            tell(1)
    if unfinished is not None:
        unfinished.unlink(missing_ok=True)
    return _together(rankings)


def reader_once(encoder: Encoder, purpose: Purpose) -> Callable[[list[str]], Any]:
    """How an encoder reads a context that serves one query only."""
    read = encoder.read_once if isinstance(encoder, ReadsOnce) else encoder.read_context
    return lambda documents: read(documents, purpose=purpose)


@contextmanager
def _kept_rankings(
    path: Path | None,
    queries: Sequence[str],
    documents: Sequence[str],
    candidates: Sequence[Rows],
) -> Iterator[tuple[list[Ranking], IO[str] | None]]:
    """The rankings that a file has of these very queries and candidates, and the file to go on."""
    if path is None:
        yield [], None
        return
    what = _digest(queries, documents, candidates)
    done = list(_read(path, what))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(what + "\n")
        file.writelines(_line(ranking) for ranking in done)
        file.flush()
        yield done, file


def _together(rankings: list[Ranking]) -> Ranking:
    """One ranking of all queries, filled up where a query has fewer candidates than another."""
    width = max(ranking.rows.shape[1] for ranking in rankings)
    rows = np.full((len(rankings), width), -1, dtype=np.int64)
    scores = np.full((len(rankings), width), -np.inf, dtype=np.float32)
    for number, one in enumerate(rankings):
        rows[number, : one.rows.shape[1]] = one.rows[0]
        scores[number, : one.rows.shape[1]] = one.scores[0]
    return Ranking(rows=rows, scores=scores)


def _read(path: Path, what: str) -> Iterator[Ranking]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return
    if lines[0] != what:
        return
    for line in lines[1:-1]:  # the last is empty, or was being written
        rows, scores = json.loads(line)
        yield Ranking(
            rows=np.array([rows], dtype=np.int64), scores=np.array([scores], dtype=np.float32)
        )


def _line(ranking: Ranking) -> str:
    return json.dumps([ranking.rows[0].tolist(), ranking.scores[0].tolist()]) + "\n"


def _digest(queries: Sequence[str], documents: Sequence[str], candidates: Sequence[Rows]) -> str:
    digest = hashlib.sha256()
    for query, rows in zip(queries, candidates, strict=True):
        for text in (query, *(documents[int(row)] for row in rows)):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(rows.tobytes())
    return digest.hexdigest()
