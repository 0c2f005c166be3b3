"""Weighted words as a surrogate: no model, no download, and neighbours that share their words.

    sample of texts ──▶ word weights ──▶ SVD ──▶ TfidfSurrogate.encode ──▶ vectors (n, d)

A word weighs more the rarer it is, and grows with the logarithm of its count in the text. SVD
brings words that occur together close to each other, and makes vectors short enough to cluster.

Source: Deerwester et al. (1990), "Indexing by latent semantic analysis"; scikit-learn computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import DataError
from cde_core.train.batching.surrogates import Side, digest_of_parts, unit_rows

if TYPE_CHECKING:
    from cde_core.train.data.pairs import Pairs

SAMPLE = 200_000
"""Texts that words and SVD are fitted on; more would hardly move either."""


class TfidfSurrogate:
    """Weighted words, sublinear in their counts, reduced by SVD; fitted when first asked."""

    def __init__(
        self, pairs: Pairs, *, dimensions: int = 128, words: int = 131_072, seed: int = 0
    ) -> None:
        """Fit on a sample of the texts of `pairs`, keeping the most frequent `words`."""
        self._pairs, self._dimensions, self._words, self._seed = pairs, dimensions, words, seed
        settings = ["tfidf 1", version("scikit-learn"), SAMPLE, dimensions, words, seed]
        self.fingerprint = digest_of_parts(*settings, pairs.digest)

    def encode(self, texts: Sequence[str], side: Side) -> NDArray[np.float32]:
        """Vectors (n, d); zeros for a text without a known word."""
        words, shorten = self._fitted
        return unit_rows(shorten(words.transform(texts)))

    @cached_property
    def _fitted(self) -> tuple[Any, Callable[[Any], NDArray[Any]]]:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(sublinear_tf=True, max_features=self._words, dtype=np.float32)
        try:
            table = words.fit_transform(self._sample())
        except ValueError:
            raise DataError(
                "No text has a word of two letters or more, so 'tfidf' cannot tell them apart; "
                "name another surrogate."
            ) from None
        if table.shape[1] == 1:  # nothing to shorten, and scikit-learn's SVD refuses to
            return words, lambda rows: rows.toarray()
        svd = TruncatedSVD(min(self._dimensions, *table.shape), random_state=self._seed)
        return words, svd.fit(table).transform

    def _sample(self) -> list[str]:
        pairs, rng = self._pairs, np.random.default_rng(self._seed)
        texts = 2 * len(pairs)
        drawn = np.sort(rng.choice(texts, min(SAMPLE, texts), replace=False))
        side = np.searchsorted(drawn, len(pairs))  # queries first, then documents
        return pairs.queries(drawn[:side]) + pairs.documents(drawn[side:] - len(pairs))
