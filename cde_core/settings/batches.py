"""`clusters`, `batches`, `filter`, `negatives`: which pairs meet in a batch, and which count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from cde_core.errors import ConfigError
from cde_core.settings.bounds import STRICT, at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """How pairs are grouped into pseudo-domains, of which batches are made."""

    __pydantic_config__ = STRICT

    size: int = 512
    """Pairs per cluster, on average; 0: no clusters, batches are random within their domain, or
    altogether where batches.across_domains is always."""

    surrogate: str = "minilm"
    """Encoder whose vectors are clustered: minilm, tfidf, a folder, a hub name, or encoder:NAME for
    any that `cde-eval encoders` lists."""

    surrogate_length: int = 0
    """Tokens that the surrogate reads of a text; 0: as many as it can, and at most 512."""

    dimensions: int = 0
    """Dimensions that vectors are reduced to first, by SVD; 0: none are lost."""

    points: Literal["paired", "free"] = "paired"
    """paired: a pair's two points share a cluster; free: each goes to its nearest centroid."""

    iterations: int = 100
    """Steps of k-means."""

    attempts: int = 3
    """Clusterings, of which the best is taken."""

    seed: int = 42
    """Of the first centroids."""

    def __post_init__(self) -> None:
        for name in ("size", "surrogate_length", "dimensions", "seed"):
            at_least(f"clusters.{name}", getattr(self, name), 0)
        for name in ("iterations", "attempts"):
            at_least(f"clusters.{name}", getattr(self, name), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How clusters become batches, and how a batch is computed."""

    __pydantic_config__ = STRICT

    size: int = 256
    """Pairs per step, over all devices."""

    packing: Literal["random", "nearest"] = "nearest"
    """Order in which clusters are strung together: by chance, or each followed by the nearest."""

    across_domains: Literal["never", "leftovers", "always"] = "never"
    """Whether a batch may mix domains; leftovers: only in the last batches, of what remains."""

    hard_negatives: int = 0
    """Negatives per query that are used of those in the data."""

    tokens_at_once: int = 4096
    """Tokens computed together, padding included; bounds memory, not the gradient."""

    gradient_cache: bool = True
    """false: keep the whole batch's graph; faster, and memory grows with the batch."""

    share_negatives: bool = True
    """Whether every device's documents are negatives of every other's queries."""

    def __post_init__(self) -> None:
        at_least("batches.size", self.size, 2)
        at_least("batches.hard_negatives", self.hard_negatives, 0)
        at_least("batches.tokens_at_once", self.tokens_at_once, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterConfig:
    """Which documents of a batch do not count as negatives, since they may be answers."""

    __pydantic_config__ = STRICT

    surrogate: str = ""
    """Encoder that judges; as clusters.surrogate; clusters: that very one; empty: nobody does."""

    surrogate_length: int = 0
    """Tokens that it reads of a text, where it is not the clusters' own; as there."""

    margin: float = 0.0
    """A document leaves where it scores at least the answer's score plus this (ε)."""

    threshold: float | None = None
    """A document leaves where it scores at least this, whatever the answer scores."""

    when: Literal["before", "batch"] = "before"
    """before: texts are embedded once, before training; batch: with every batch."""

    duplicates: bool = True
    """A document with the answer's own text never counts as a negative."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.margin):
            raise ConfigError(f"filter.margin is {self.margin}; it must be a number, such as 0.")
        if self.threshold is not None and self.margin:
            raise ConfigError(
                "filter.margin and filter.threshold exclude each other; set filter.margin to 0, or "
                "leave filter.threshold out."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class NegativesConfig:
    """Hard negatives that the model under training finds itself, again and again (ANCE).

    They replace those of the data; batches.hard_negatives says how many of them a step uses.
    """

    __pydantic_config__ = STRICT

    every_epochs: int = 0
    """Epochs after which they are found again; 0: those of the data stay."""

    at_start: bool = True
    """Whether the model that training starts from finds the first; false: those are the data's."""

    per_query: int = 9
    """How many are kept of each pair."""

    depth: int = 200
    """Documents of the pair's domain that are looked at, the highest-ranked."""

    choose: Literal["highest", "drawn"] = "highest"
    """Of those that are no answers, the highest-ranked, or some by chance, as in ANCE."""

    margin: float | None = None
    """A document leaves where it scores at least the answer's score plus this, such as -0.05."""

    def __post_init__(self) -> None:
        at_least("negatives.every_epochs", self.every_epochs, 0)
        at_least("negatives.per_query", self.per_query, 1)
        at_least("negatives.depth", self.depth, self.per_query + 1)
        if self.margin is not None and not math.isfinite(self.margin):
            raise ConfigError(
                f"negatives.margin is {self.margin}; it must be a number, such as -0.05."
            )
