"""Training pairs, and what a surrogate thinks of them: what the probes of clustering begin with.

    sources ──▶ pairs ──▶ surrogate's vectors ──▶ JudgedPairs ──▶ neighbours, clusters, difficulty

All of it is what `cde-train` makes before a run, kept in the same cache. Similarity of two pairs is
the method's own (equation 2): the query of each with the document of the other.

Source: Morris and Rush (2024), section 4.1, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cde_core.recipe import Recipe
from cde_core.train.batching.surrogates import PairVectors
from cde_core.train.data.pairs import Pairs
from cde_core.train.preparation import read_pairs, vectors_of
from cde_eval.vectors import Rows

Say = Callable[[str], object]

TEXTS_AT_ONCE = 10_000


@dataclass(frozen=True)
class JudgedPairs:
    """N pairs with a surrogate's vectors, and a recipe that clusters them."""

    pairs: Pairs
    vectors: PairVectors
    recipe: Recipe

    @property
    def about(self) -> dict[str, Any]:
        """What decides everything that is measured on them, for a `ProbeTable`."""
        clusters = self.recipe.clusters
        return {
            "model": clusters.surrogate,
            "model_name": clusters.surrogate,
            "revision": self.vectors.digest,
            "settings": json.dumps({"surrogate_length": clusters.surrogate_length}),
            "sources": ", ".join(source_names(self.recipe.data.sources)),
            "data": self.pairs.digest,
            "pairs": len(self.pairs),
        }

    @cached_property
    def query_texts(self) -> NDArray[np.int64]:
        """A number per query (N,), equal where texts are equal."""
        return _numbered(self.pairs.queries, len(self.pairs))

    @cached_property
    def document_texts(self) -> NDArray[np.int64]:
        """The same of documents."""
        return _numbered(self.pairs.documents, len(self.pairs))

    def no_negatives(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Where (n, m) a document is no negative of a query by its text alone.

        It is the answer or has the answer's text, or answers a query with the same text.
        """
        asked, told = self.query_texts, self.document_texts
        same: NDArray[np.bool_] = told[queries][:, None] == told[documents][None, :]
        same |= asked[queries][:, None] == asked[documents][None, :]
        return same


def judged_pairs(recipe: Recipe, say: Say) -> JudgedPairs:
    """Read a recipe's pairs, and have its clusters' surrogate embed them, once for all time.

    Raises:
        CdeError: If a source cannot be read, or there is no such surrogate.
    """
    pairs = read_pairs(recipe.data, say)
    vectors = vectors_of(recipe.clusters, pairs, say, device=recipe.device)
    return JudgedPairs(pairs, vectors, recipe)


def source_names(sources: Iterable[str]) -> list[str]:
    """Sources without the folders they stand in, which say nothing to others."""
    return [source.rstrip("/").rpartition("/")[2] if _is_path(source) else source
            for source in sources]  # fmt: skip


def _is_path(source: str) -> bool:
    return "/" in source and not source.startswith("hub:")


def _numbered(read: Callable[[Rows], list[str]], count: int) -> NDArray[np.int64]:
    numbers: dict[str, int] = {}
    found = np.empty(count, np.int64)
    for start in range(0, count, TEXTS_AT_ONCE):
        rows = np.arange(start, min(start + TEXTS_AT_ONCE, count))
        found[rows] = [numbers.setdefault(text, len(numbers)) for text in read(rows)]
    return found
