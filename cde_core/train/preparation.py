"""Everything that a run needs before its first step, made or found in the cache.

    sources ──▶ pairs ──▶ surrogate vectors ──▶ clusters ──▶ TrainingData ──▶ batch, by its number
                                 └──▶ filter ──────────────────▲

Each of these is kept on disk under the digest of what it was made from, so a second run with the
same data starts at once, and `cde-train data` and `cde-train cluster` show what a run will use.
Where several processes train, the first prepares and the others read what it made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from cde_core.errors import ConfigError
from cde_core.model.context_cache import cache_folder
from cde_core.recipe import ClusterConfig, DataConfig, FilterConfig, LossConfig, Recipe
from cde_core.train.batching.clusters import Clusters, cluster_pairs, one_cluster_per_domain
from cde_core.train.batching.filtering import Filter
from cde_core.train.batching.packing import Packing, pack
from cde_core.train.batching.surrogate_kinds import surrogate_named
from cde_core.train.batching.surrogates import PairVectors, Surrogate, embed_pairs
from cde_core.train.data.pairs import Pairs
from cde_core.train.data.sources import prepare_pairs
from cde_core.train.distributed import World
from cde_core.train.log import WorkBar

Say = Callable[[str], object]
"""Told what was done, in a line."""


def training_cache() -> Path:
    """Where pairs, vectors and clusters are kept: `train` in the folder of CDE_EVAL_CACHE."""
    return cache_folder() / "train"


@dataclass
class TrainingData:
    """Pairs in the order in which a run sees them."""

    pairs: Pairs
    clusters: Clusters
    filter: Filter
    recipe: Recipe
    _epoch: tuple[int, Packing] | None = field(default=None, init=False)

    @cached_property
    def batches_per_epoch(self) -> int:
        """Batches that one pass over the pairs gives."""
        return len(self.packing(0).batches)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.recipe.steps or self.recipe.epochs * self.batches_per_epoch

    def rows(self, step: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Pairs (B,) of the batch of a step."""
        epoch, number = divmod(step, self.batches_per_epoch)
        rows: np.ndarray[tuple[int], np.dtype[np.int64]] = self.packing(epoch).batches[number]
        return rows

    def packing(self, epoch: int) -> Packing:
        """The batches of an epoch."""
        kept = self._epoch
        if kept is not None and kept[0] == epoch:
            return kept[1]
        settings = self.recipe.batches
        packing = pack(
            self.clusters,
            batch_size=settings.size,
            order=settings.packing,
            across_domains=settings.across_domains,
            seed=self.recipe.seed,
            epoch=epoch,
        )
        self._epoch = (epoch, packing)
        return packing


def prepare(recipe: Recipe, world: World, say: Say) -> TrainingData:
    """Read or make pairs, vectors, clusters and filter; one process first, then the others.

    Raises:
        ConfigError: If the recipe does not fit the data.
        DataError: If a source cannot be read.
    """
    failed = torch.zeros(1, device=world.device)
    if not world.leads:
        if world.total(failed).item():
            raise SystemExit(2)  # the first process says why
        return _prepare(recipe, _silent)
    try:
        return _prepare(recipe, say)
    except BaseException:
        failed += 1
        raise
    finally:
        world.total(failed)


def _prepare(recipe: Recipe, say: Say) -> TrainingData:
    _refuse_settings_without_effect(recipe)
    pairs = read_pairs(recipe.data, say)
    negatives = recipe.batches.hard_negatives
    mined = recipe.negatives.every_epochs and recipe.negatives.at_start
    if negatives and not mined and not pairs.first_negative[-1]:
        raise ConfigError(
            f"batches.hard_negatives is {negatives}, but no pair has any; set it to 0, or name "
            "sources that have some."
        )
    require_what_is_learnt(recipe.loss, pairs)
    clusters = clusters_of(recipe, pairs, say)
    data = TrainingData(pairs, clusters, _filter(recipe, pairs, say), recipe)
    _describe(data, say)
    return data


def _refuse_settings_without_effect(recipe: Recipe) -> None:
    """Before work starts: whoever sets these expects them to do something."""
    judge, scores, objective = recipe.filter, recipe.evaluation, recipe.loss.objective
    if recipe.data.prefixes and not recipe.model.prefixes:
        raise ConfigError(
            "data.prefixes names some, but model.prefixes is false, so no text would carry them; "
            "set it to true, or leave data.prefixes out."
        )
    if judge.surrogate and objective in ("cosent", "classification"):
        raise ConfigError(
            f"filter.surrogate is {judge.surrogate}, but loss.objective {objective} looks at no "
            "negatives that it could filter; leave it empty."
        )
    if not judge.surrogate and (judge.margin or judge.threshold is not None):
        raise ConfigError(
            "filter.margin and filter.threshold need a filter.surrogate to judge by; name one, "
            "such as clusters."
        )
    if scores.every and not scores.tasks and not scores.data:
        raise ConfigError(
            f"evaluation.every is {scores.every}, but evaluation.tasks names none; name some, such "
            "as DocsNumpy, or a folder in evaluation.data."
        )


def read_pairs(settings: DataConfig, say: Say) -> Pairs:
    """The pairs that a recipe's `data` asks for."""
    prepared = prepare_pairs(
        settings.sources,
        only_domains=settings.only_domains,
        exclude_domains=settings.exclude_domains,
        skip_bad_rows=settings.skip_bad_rows,
        most_per_source=settings.most_per_source,
        twice=settings.twice,
        cache=training_cache(),
    )
    pairs = prepared.pairs
    domains = len(pairs.domains)
    say(f"{len(pairs):,} pairs, {domains:,} domain{'s' * (domains != 1)}")
    if prepared.bad_rows:
        say(f"{prepared.bad_rows:,} bad rows skipped")
    strangers = sorted({*settings.prefixes} - {"*", *pairs.domains})
    if strangers:
        say(f"data.prefixes also names {', '.join(strangers)}, of which there are no pairs")
    return pairs


def require_what_is_learnt(settings: LossConfig, pairs: Pairs) -> None:
    """An objective is of scores, labels or a teacher's scores: every pair must have its own.

    Raises:
        ConfigError: If one has none, or there are other labels than the recipe says.
    """
    what, column, known = {
        "cosent": ("a score", "score", pairs.scored),
        "classification": ("a label", "label", pairs.labelled),
        "distillation": ("a teacher's scores", "scores", pairs.taught),
    }.get(settings.objective, ("", "", None))
    if known is None:
        return
    missing = len(pairs) - int(np.count_nonzero(known))
    if missing:
        raise ConfigError(
            f"loss.objective is {settings.objective}, which needs {what} of every pair, but "
            f"{missing:,} of {len(pairs):,} have none; add the column {column} to the sources, "
            "leave out those without in data.sources, or set loss.objective to contrastive."
        )
    if settings.objective != "classification":
        return
    wanted, found = settings.labels or pairs.labels, pairs.labels
    if {*wanted} != {*found} or len(found) < 2:
        raise ConfigError(
            f"The labels of the pairs are {', '.join(sorted(found))}, but classification is of "
            f"{', '.join(sorted(settings.labels)) or 'at least two'}; mend loss.labels or the data."
        )


def surrogate_for(
    settings: ClusterConfig | FilterConfig, pairs: Pairs, *, device: str
) -> Surrogate:
    """The surrogate that clusters or a filter ask for."""
    return surrogate_named(
        settings.surrogate,
        pairs=pairs,
        device=None if device == "auto" else device,
        max_length=settings.surrogate_length,
    )


def vectors_of(
    settings: ClusterConfig | FilterConfig, pairs: Pairs, say: Say, *, device: str
) -> PairVectors:
    """A surrogate's vectors of all pairs, with a bar while they are made."""
    surrogate = surrogate_for(settings, pairs, device=device)
    texts = 2 * len(pairs) + int(pairs.first_negative[-1])
    with WorkBar(texts, f"{settings.surrogate} reads the pairs", say) as progress:
        return embed_pairs(pairs, surrogate, cache=training_cache(), progress=progress)


def clusters_of(recipe: Recipe, pairs: Pairs, say: Say) -> Clusters:
    """The clusters of all pairs; with size 0, every domain is one, or all of them together."""
    settings = recipe.clusters
    if not settings.size and recipe.batches.across_domains == "always":
        say("no clusters: batches are random")
        return one_cluster_per_domain(np.zeros_like(pairs.domain_of))
    if not settings.size:
        say("no clusters: batches are random within their domain")
        return one_cluster_per_domain(pairs.domain_of)
    clusters = cluster_pairs(
        vectors_of(settings, pairs, say, device=recipe.device),
        pairs.domain_of,
        size=settings.size,
        dimensions=settings.dimensions,
        iterations=settings.iterations,
        attempts=settings.attempts,
        seed=settings.seed,
        points=settings.points,
        cache=training_cache(),
    )
    say(f"{len(clusters.centroids):,} clusters, inertia {clusters.inertia:.4f}")
    return clusters


def _filter(recipe: Recipe, pairs: Pairs, say: Say) -> Filter:
    settings = recipe.filter
    asked = recipe.clusters if settings.surrogate == "clusters" else settings
    vectors, surrogate = None, None
    if asked.surrogate and settings.when == "before":
        vectors = vectors_of(asked, pairs, say, device=recipe.device)
    elif asked.surrogate:
        surrogate = surrogate_for(asked, pairs, device=recipe.device)
    return Filter(
        vectors=vectors,
        surrogate=surrogate,
        margin=settings.margin,
        threshold=settings.threshold,
        duplicates=settings.duplicates,
    )


def _describe(data: TrainingData, say: Say) -> None:
    packing, size = data.packing(0), data.recipe.batches.size
    across = data.recipe.batches.across_domains
    sizes = np.bincount(data.pairs.domain_of, minlength=len(data.pairs.domains))
    if not len(packing.batches):
        what, largest = ("domain fills", int(sizes.max()))
        advice = ", or batches.across_domains to leftovers or always"
        if across != "never":
            what, largest, advice = "number of domains fill", len(data.pairs), ""
        raise ConfigError(
            f"No {what} a batch of {size}: there are {largest} pairs at most. Set batches.size to "
            f"{largest} or less{advice}."
        )
    small = [data.pairs.domains[i] for i in np.flatnonzero(sizes < size)]
    if small and across == "never":
        more = f" and {len(small) - 5} more" if len(small) > 5 else ""
        say(
            f"never trained on, since they fill no batch: {', '.join(small[:5])}{more}; "
            "batches.across_domains would mix them"
        )
    left_out = f", {len(packing.left_out):,} pairs left out" if len(packing.left_out) else ""
    say(f"{len(packing.batches):,} batches of {size} an epoch{left_out}; {data.steps:,} steps")


def _silent(line: str) -> None:
    """Say nothing: another process speaks."""
