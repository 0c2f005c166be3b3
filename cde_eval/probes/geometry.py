"""How do a model's vectors lie in their space, and what does context change about it?

    model × task × policy × draw ──▶ vectors of documents and queries ──▶ anisotropy, uniformity,
                │                                        │                alignment, effective rank
                │                                        ├──▶ variance by component
                │                                        └──▶ nDCG@10 by dimensions kept
                └──▶ rows of some words in every layer ──▶ anisotropy, self-similarity of a word

Each of the four is a cell of the table, so a run that was stopped goes on with the next. The
measures are in `measures`; vectors of the last layer come from where all vectors are kept.

Sources: Ethayarajh (2019), https://arxiv.org/abs/1909.00512; Wang and Isola (2020),
https://arxiv.org/abs/2005.10242; Kusupati et al. (2022), https://arxiv.org/abs/2205.13147
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from cde_core.errors import ConfigError
from cde_core.text import Purpose
from cde_eval.encoders.kept import corpus_vectors
from cde_eval.encoders.protocol import Encoder
from cde_eval.plan import Evaluation, Failure
from cde_eval.probes import measures
from cde_eval.probes.layers import layer_reader
from cde_eval.probes.lent import Lent, about, lent, look_at_each
from cde_eval.probes.measures import Estimate
from cde_eval.probes.table import ProbeTable
from cde_eval.probes.truncation import truncated_scores
from cde_eval.probes.word_rows import Repeated, follow_words, sample_rows
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.search_data import SearchData, search_data
from cde_eval.vectors import RowsOfVectors, Vectors

PROBE = "geometry"
CELL = ("context", "draw", "pool", "part")
PARTS = ("vectors", "spectrum", "truncation", "layers")

Found: TypeAlias = list[dict[str, Any]]
"""Rows of the table: measure, side, at (a layer, a component, a dimension), value, low, high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is looked at."""

    documents: int = 2_000
    """Documents, queries and pairs of both, at most, that the measures on vectors see."""

    texts: int = 200
    """Documents whose words are followed through the layers."""

    words: int = 100
    """Different words, at most, whose self-similarity is taken."""

    occurrences: int = 10
    """Texts, at most, that each of them is looked at in."""

    fewest: int = 5
    """Texts that a word must be in, at least, as in Ethayarajh (2019)."""

    seed: int = 42
    """Of what is drawn of all this."""

    def __post_init__(self) -> None:
        fewest = min(self.documents, self.texts)
        if fewest < 3:
            raise ConfigError(
                f"The geometry of {fewest} texts says nothing; give --documents and --texts 3 or "
                "more."
            )


def geometry(
    plan: Evaluation, output: Path, sizes: Sizes = Sizes()
) -> Iterator[pd.DataFrame | Failure]:
    """Measure a plan's models on its search tasks, under each policy and draw.

    Args:
        plan: Its tasks are search tasks.
        output: Results folder; the tables are in `probes/geometry` below it.
        sizes: How much is looked at.

    Returns:
        The rows of each model and task, and what could not be measured and why, as it goes on.

    Raises:
        ModelError: If a model cannot be loaded.
    """
    return look_at_each(plan, partial(_of_one, plan, output, sizes))


def _of_one(
    plan: Evaluation, output: Path, sizes: Sizes, model: str, encoder: Encoder, source: TaskSource
) -> Iterator[pd.DataFrame | Failure]:
    table = ProbeTable(output, PROBE, about(plan, model, encoder, source, sizes), cell=CELL)
    parts: tuple[str, ...] = PARTS
    if layer_reader(encoder, Purpose("Retrieval", "document", source.name)) is None:
        parts = tuple(part for part in PARTS if part != "layers")
        reason = f"{model} has no layers that can be looked into; all else is measured."
        yield Failure(model, source.name, reason, expected=True)
    data: SearchData | None = None
    for one in lent(plan, encoder, source):
        cell = {"context": one.context, "draw": one.draw, "pool": one.pool}
        missing = [part for part in parts if not table.has(**cell, part=part)]
        if not missing:
            continue
        data = data or search_data(source)
        look = _Look(encoder, data, sizes, one)
        for part in missing:
            table.add(getattr(look, part)(), **cell, part=part)
    yield table.frame.assign(model=model, task=source.name)


class _Look:
    """One model at one task in one context: the rows of each part, by its name."""

    def __init__(self, encoder: Encoder, data: SearchData, sizes: Sizes, lent: Lent) -> None:
        self._encoder, self._data, self._sizes, self._lent = encoder, data, sizes, lent

    @cached_property
    def _context(self) -> Any:
        return self._lent.read(self._data)

    @cached_property
    def _documents(self) -> RowsOfVectors:
        purpose = self._data.purpose("document")
        return corpus_vectors(self._encoder, self._data.documents, purpose, self._context)

    @cached_property
    def _queries(self) -> Vectors:
        purpose = self._data.purpose("query")
        found = corpus_vectors(self._encoder, self._data.queries, purpose, self._context)
        return np.asarray(found[:], dtype=np.float32)

    def vectors(self) -> Found:
        """Anisotropy, uniformity and effective rank of each side; alignment of the two."""
        found = []
        for side, vectors in (("documents", self._documents), ("queries", self._queries)):
            some = self._some(vectors)
            found.append(_row("anisotropy", measures.anisotropy(some), side))
            found.append(_row("uniformity", measures.uniformity(some), side))
            rank = Estimate(measures.effective_rank(some))
            found.append(_row("effective rank", rank, side))
        rng = self._rng()
        queries, documents = self._data.positive_pairs()
        chosen = sample_rows(len(queries), self._sizes.documents, rng)
        left, right = self._queries[queries[chosen]], self._documents[documents[chosen]]
        found.append(_row("alignment", measures.alignment(left, right, rng), "pairs"))
        return found

    def spectrum(self) -> Found:
        """Share of the documents' variance along their first 1, 2, 4, … principal components."""
        shares = np.cumsum(measures.variance_shares(self._some(self._documents)))
        steps = [2**i for i in range(32) if 2**i < len(shares)] + [len(shares)]
        return [_row("variance", Estimate(float(shares[k - 1])), at=k) for k in steps]

    def truncation(self) -> Found:
        """nDCG@10 with the first 8, 16, 32, … dimensions, and with all."""
        # What is scaled is what an evaluation scales.
        scale = self._encoder.similarity == "cosine" or self._encoder.context_size != 0
        curve = truncated_scores(self._data, self._queries, self._documents, scale=scale)
        return [
            _row("ndcg_at_10", measures.mean_of(scores, self._rng()), "pairs", at=kept)
            for kept, scores in curve
        ]

    def layers(self) -> Found:
        """In every layer, the mean cosine of random words, and of a word's occurrences."""
        reader = layer_reader(self._encoder, self._data.purpose("document"), self._context)
        assert reader is not None, "whoever has no layers is not asked for this part"
        sizes, rng = self._sizes, self._rng()
        rows = sample_rows(len(self._data.documents), sizes.texts, rng)
        texts = [self._data.documents[int(row)] for row in rows]
        how = Repeated(sizes.words, sizes.occurrences, sizes.fewest)
        found = []
        for layer, (random, words) in enumerate(follow_words(reader, texts, how, rng).layers()):
            found.append(_row("word anisotropy", measures.anisotropy(random), at=layer))
            similar = measures.self_similarity(words, self._rng())
            found.append(_row("self-similarity", similar, at=layer))
        return found

    def _some(self, vectors: RowsOfVectors) -> Vectors:
        rows = sample_rows(len(vectors), self._sizes.documents, self._rng())
        return np.asarray(vectors[rows], dtype=np.float32)

    def _rng(self) -> np.random.Generator:
        """The same draws in every context, so that contexts are compared on the same texts."""
        return np.random.default_rng(self._sizes.seed)


def _row(
    measure: str, estimate: Estimate, side: str = "documents", at: int | None = None
) -> dict[str, Any]:
    numbers = {name: float(f"{one:.6g}") for name, one in estimate._asdict().items()}
    return {"measure": measure, "side": side, "at": at, **numbers}
