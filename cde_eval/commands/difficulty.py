"""`cde-eval difficulty`: how hard are batches, and do models learn more from hard ones?"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Literal

from cde_core.errors import CdeError


def difficulty(
    pairs: tuple[str, ...] = (),
    runs: tuple[Path, ...] = (),
    surrogate: str = "minilm",
    surrogate_length: int = 0,
    cluster_sizes: tuple[int, ...] = (0, 16, 64, 256, 1024),
    batch_sizes: tuple[int, ...] = (16, 64, 256),
    batches: int = 1000,
    across_domains: Literal["never", "leftovers", "always"] = "never",
    most_per_source: int = 0,
    device: str = "auto",
    output: Path = Path("results"),
) -> None:
    """Measure the mean similarity of negatives in batches, by cluster size and batch size.

    With --runs also of what finished training runs saw, beside the loss they ended with and their
    scores, for the correlation of difficulty and score. Clusters and vectors are kept, and what
    was measured is not measured again.

    Args:
        pairs: Pairs as `cde-train` names them: docs, files, folders, hub:ORG/NAME; by default
            docs, or none where --runs names runs.
        runs: Folders of finished runs, or of sweeps.
        surrogate: What says how alike texts are: minilm, tfidf, a folder, encoder:NAME.
        surrogate_length: Tokens that it reads of a text; 0: as many as it can, and at most 512.
        cluster_sizes: Pairs per cluster; 0: random batches.
        batch_sizes: Pairs per batch.
        batches: How many are looked at for each, at most one pass over the pairs.
        across_domains: Whether batches may mix domains, as in a recipe.
        most_per_source: Pairs read of every source, from its beginning; 0: all.
        device: Where the surrogate computes: auto, cpu, cuda, cuda:1, mps.
        output: Results folder.
    """
    from cde_core.recipe import ClusterConfig
    from cde_eval.probes.difficulty import measure_grid, measure_runs
    from cde_eval.probes.pairs import judged_pairs, recipe_for

    if batches < 1 or min(batch_sizes, default=2) < 2 or min(cluster_sizes, default=0) < 0:
        raise CdeError(
            f"--batches is {batches}, --batch-sizes {batch_sizes} and --cluster-sizes "
            f"{cluster_sizes}; the least that work are 1, 2 and 0."
        )
    if pairs or not runs:
        recipe = recipe_for(
            pairs or ("docs",),
            surrogate,
            surrogate_length=surrogate_length,
            most_per_source=most_per_source,
            device=device,
        )
        grid = measure_grid(
            judged_pairs(recipe, say),
            output,
            cluster_sizes=cluster_sizes,
            batch_sizes=batch_sizes,
            batches=batches,
            across_domains=across_domains,
            say=say,
        )
        print(grid.round(4).to_string(index=False))
    if runs:
        judge = dataclasses.replace(
            ClusterConfig(), surrogate=surrogate, surrogate_length=surrogate_length
        )
        found = measure_runs(runs, judge, output, batches=batches, say=say)
        shown = ["kind", "cluster_size", "batch_size", "filtered", "similarity", "loss", "score"]
        print(found[shown].round(4).to_string(index=False) if len(found) else "")
    print(f"\nTables are in {output}/probes; `cde-eval report` draws them.")


def say(line: str) -> None:
    """Tell the user what was done, beside the result."""
    print(line, file=sys.stderr, flush=True)
