"""How hard batches are: the mean similarity of their negatives, and what models learn from them.

    pairs, surrogate ──▶ clusters of a size ──▶ batches of a size ──▶ difficulty   (figure 6)
    finished runs ──▶ the batches they saw ──▶ difficulty, last loss, score        (figures 2, 10)

A batch is the harder the nearer its documents are to queries that they do not answer. Smaller
clusters and smaller batches should both make batches harder, and harder batches better models, as
long as documents that are answers after all (false negatives) are left out.

The paper takes a surrogate's similarity for figure 6, and for figures 2 and 10 the loss at the end
of training; of a run both are given here.

Source: Morris and Rush (2024), sections 4.1, 6 and 7, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cde_core.errors import ConfigError, DataError
from cde_core.recipe import ClusterConfig, Recipe, digest, read_recipe
from cde_core.settings.batches import BatchConfig
from cde_core.train.batching.filtering import Filter
from cde_core.train.preparation import TrainingData, clusters_of
from cde_eval.probes.pairs import JudgedPairs, Say, judged_pairs
from cde_eval.probes.table import ProbeTable
from cde_eval.progress import progress_bar
from cde_eval.vectors import Rows, Vectors

PROBE, OF_RUNS = "difficulty", "difficulty-of-runs"


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Of some batches: means over batches of means over queries."""

    similarity: float
    """Mean cosine of a query with the documents of the others."""

    similarity_sd: float
    """Standard deviation of that over batches; NaN for one batch."""

    hardest: float
    """Mean cosine of a query with the nearest document of the others."""

    false_negatives: float
    """Share of negatives, from 0 to 1, that the surrogate puts at least as near as the answer: what
    the filter of equation 4 leaves out with a margin of zero."""

    batches: int


def difficulty(judged: JudgedPairs, batches: Iterable[Rows]) -> Difficulty:
    """How hard batches are, as the surrogate sees them.

    Documents with the answer's own text, and answers to a query of the same text, are no negatives
    and do not count.

    Args:
        judged: N pairs with the surrogate's unit vectors.
        batches: Pairs of each batch (B,); of at least one batch.

    Raises:
        ConfigError: If no batch has a negative.

    Source: Morris and Rush (2024), equations 2 and 4.
    """
    found = [one for batch in batches if (one := _of_batch(judged, batch)) is not None]
    if not found:
        raise ConfigError("No batch has a negative; name more pairs, or larger batches.")
    similarity, hardest, beyond = np.array(found).T
    spread = float(similarity.std(ddof=1)) if len(similarity) > 1 else float("nan")
    means = (float(one.mean()) for one in (similarity, hardest, beyond))
    mean, nearest, false = means
    return Difficulty(mean, spread, nearest, false, len(found))


def _of_batch(judged: JudgedPairs, rows: Rows) -> tuple[float, float, float] | None:
    queries: Vectors = judged.vectors.queries[rows]
    documents: Vectors = judged.vectors.documents[rows]
    cosines = queries @ documents.T
    answers = np.diag(cosines)[:, None]
    negative = ~judged.no_negatives(rows, rows)
    has_some = negative.any(axis=1)
    if not has_some.any():
        return None
    cosines, negative, answers = cosines[has_some], negative[has_some], answers[has_some]
    counts = negative.sum(axis=1)
    mean = np.where(negative, cosines, 0).sum(axis=1) / counts
    nearest = np.where(negative, cosines, -np.inf).max(axis=1)
    beyond = (negative & (cosines >= answers)).sum(axis=1) / counts
    return float(mean.mean()), float(nearest.mean()), float(beyond.mean())


def measure_grid(
    judged: JudgedPairs,
    output: Path,
    *,
    cluster_sizes: Sequence[int],
    batch_sizes: Sequence[int],
    batches: int = 1000,
    across_domains: str = "never",
    say: Say = lambda line: None,
) -> pd.DataFrame:
    """Difficulty of batches of every size from clusters of every size; kept cell by cell.

    Args:
        judged: Pairs and surrogate.
        output: Results folder.
        cluster_sizes: Pairs per cluster; 0: no clusters, batches are random over all domains.
        batch_sizes: Pairs per batch.
        batches: How many are looked at for each, at most one pass over the pairs.
        across_domains: As `batches.across_domains` of a recipe; random batches always mix them.
        say: Told what cannot be measured.

    Returns:
        A row per cell: `cluster_size`, `batch_size` and `Difficulty`'s fields.
    """
    about = {**judged.about, "most_batches": batches, "across_domains": across_domains}
    table = ProbeTable(output, PROBE, about, cell=["cluster_size", "batch_size"])
    cells = [(clusters, size) for clusters in cluster_sizes for size in batch_sizes]
    with progress_bar(len(cells), "cells") as done:
        for cluster_size, batch_size in cells:
            cell = {"cluster_size": cluster_size, "batch_size": batch_size}
            if not table.has(**cell):
                data = _training_data(judged, cluster_size, batch_size, across_domains)
                if data.batches_per_epoch:
                    table.add(
                        [dataclasses.asdict(difficulty(judged, _some(data, batches)))], **cell
                    )
                else:
                    say(f"no domain fills a batch of {batch_size}; that size is left out")
            done(1)
    frame = table.frame
    if frame.empty:
        return frame
    return frame[frame["cluster_size"].isin(cluster_sizes) & frame["batch_size"].isin(batch_sizes)]


def _training_data(
    judged: JudgedPairs, cluster_size: int, batch_size: int, across_domains: str
) -> TrainingData:
    asked = judged.recipe
    recipe = dataclasses.replace(
        asked,
        clusters=dataclasses.replace(asked.clusters, size=cluster_size),
        batches=BatchConfig(
            size=batch_size,
            across_domains="always" if not cluster_size else across_domains,  # type: ignore[arg-type]
        ),
    )
    clusters = clusters_of(recipe, judged.pairs, lambda line: None)
    return TrainingData(judged.pairs, clusters, Filter(), recipe)


def _some(data: TrainingData, most: int) -> Iterator[Rows]:
    """The first batches of a run, at most one pass."""
    for step in range(min(most, data.batches_per_epoch, data.steps)):
        yield data.rows(step)


def measure_runs(
    folders: Sequence[Path],
    judge: ClusterConfig,
    output: Path,
    *,
    batches: int = 1000,
    say: Say = lambda line: None,
) -> pd.DataFrame:
    """Difficulty of what finished runs were trained on, beside what came of it.

    Args:
        folders: Runs, or folders of them, such as sweeps leave.
        judge: The surrogate that judges all of them alike.
        output: Results folder.
        batches: How many of a run's first batches are looked at, at most one pass.
        say: Told which runs are left out, and why.

    Returns:
        A row per run: `run`, `digest` of its recipe, sizes, choices, `Difficulty`'s fields (NaN
        where its pairs are not what they were), loss and accuracy of its last steps, and `score`,
        the mean over its tasks.

    Raises:
        DataError: If there is no finished run.
    """
    runs = [run for folder in folders for run in _finished_runs(folder)]
    if not runs:
        names = ", ".join(map(str, folders))
        raise DataError(f"{names}: no finished run in it; train some with `cde-train sweep`.")
    about = {
        "model": judge.surrogate,
        "model_name": judge.surrogate,
        "revision": "",
        "settings": json.dumps({"surrogate_length": judge.surrogate_length}),
        "most_batches": batches,
    }
    table = ProbeTable(output, OF_RUNS, about, cell=["digest"])
    with progress_bar(len(runs), "runs") as done:
        for recipe, result in runs:
            key = digest(recipe)
            if not table.has(digest=key):
                row = _row_of_run(recipe, result, judge, batches, say)
                if row is not None:
                    table.add([row], digest=key)
            done(1)
    return table.frame


def _finished_runs(folder: Path) -> Iterator[tuple[Recipe, dict[str, Any]]]:
    for file in sorted([*folder.glob("result.json"), *folder.glob("*/result.json")]):
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{file} is not JSON ({error}); train that run again.") from error
        yield read_recipe(file.parent / "recipe.yaml"), result


def _row_of_run(
    recipe: Recipe, result: dict[str, Any], judge: ClusterConfig, batches: int, say: Say
) -> dict[str, Any] | None:
    score, tasks = _score(result.get("scores") or {})
    if score is None:
        say(f"{result['name']} has no scores, since its recipe evaluates nothing; it is left out")
        return None
    measured = _difficulty_of_run(recipe, result, judge, batches, say)
    return {
        "run": result["name"],
        "kind": recipe.model.kind,
        "cluster_size": recipe.clusters.size,
        "batch_size": recipe.batches.size,
        "hard_negatives": recipe.batches.hard_negatives,
        "filtered": "yes" if recipe.filter.surrogate else "no",
        "steps": result["steps"],
        **measured,
        "loss": result["loss"],
        "accuracy": result.get("accuracy"),
        "score": score,
        "tasks": tasks,
    }


def _difficulty_of_run(
    recipe: Recipe, result: dict[str, Any], judge: ClusterConfig, batches: int, say: Say
) -> dict[str, Any]:
    """`Difficulty`'s fields; NaN where the pairs have changed since the run."""
    judged = judged_pairs(dataclasses.replace(recipe, clusters=judge), lambda line: None)
    if len(judged.pairs) != result["pairs"]:
        say(
            f"{result['name']} had {result['pairs']:,} pairs and its sources now hold "
            f"{len(judged.pairs):,}, so the similarity of its negatives is left open"
        )
        names = [field.name for field in dataclasses.fields(Difficulty)]
        return dict.fromkeys(names, float("nan"))
    clusters = clusters_of(recipe, judged.pairs, lambda line: None)
    data = TrainingData(judged.pairs, clusters, Filter(), recipe)
    return dataclasses.asdict(difficulty(judged, _some(data, batches)))


def _score(scores: dict[str, float]) -> tuple[float | None, str]:
    """Mean over tasks, with the corpus as context where there is one; and the tasks' names."""
    for policy in ("corpus", "none"):
        mean = scores.get(f"mean/{policy}")
        if mean is not None:
            tasks = [name.rpartition("/")[0] for name in scores if name.endswith(f"/{policy}")]
            return float(mean), ", ".join(task for task in tasks if task != "mean")
    return None, ""
