"""`cde-eval difficulty`: how hard are batches, and do models learn more from hard ones?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from cde_core.errors import CdeError
from cde_eval.commands.options import FLAT, JUDGING, Judging
from cde_eval.commands.outcomes import say

NO_PAIRS = Judging(pairs=())


def difficulty(
    judging: Annotated[Judging, FLAT] = NO_PAIRS,
    runs: tuple[Path, ...] = (),
    cluster_sizes: tuple[int, ...] = (0, 16, 64, 256, 1024),
    batch_sizes: tuple[int, ...] = (16, 64, 256),
    batches: int = 1000,
    across_domains: Literal["never", "leftovers", "always"] = "never",
    output: Path = Path("results"),
) -> None:
    """Measure the mean similarity of negatives in batches, by cluster size and batch size.

    With --runs also of what finished training runs saw, beside the loss they ended with and their
    scores, for the correlation of difficulty and score. Without --pairs it takes docs, or nothing
    but the runs. Clusters and vectors are kept, and what was measured is not measured again.

    Args:
        judging: Pairs, and what judges them.
        runs: Folders of finished runs, or of sweeps.
        cluster_sizes: Pairs per cluster; 0: random batches.
        batch_sizes: Pairs per batch.
        batches: How many are looked at for each, at most one pass over the pairs.
        across_domains: Whether batches may mix domains, as in a recipe.
        output: Results folder.
    """
    from cde_eval.probes.difficulty import measure_grid, measure_runs
    from cde_eval.probes.pairs import judged_pairs

    if batches < 1 or min(batch_sizes, default=2) < 2 or min(cluster_sizes, default=0) < 0:
        raise CdeError(
            f"--batches is {batches}, --batch-sizes {batch_sizes} and --cluster-sizes "
            f"{cluster_sizes}; the least that work are 1, 2 and 0."
        )
    if judging.pairs or not runs:
        pairs = judging.pairs or JUDGING.pairs
        grid = measure_grid(
            judged_pairs(dataclasses.replace(judging, pairs=pairs).recipe(), say),
            output,
            cluster_sizes=cluster_sizes,
            batch_sizes=batch_sizes,
            batches=batches,
            across_domains=across_domains,
            say=say,
        )
        print(grid.round(4).to_string(index=False))
    if runs:
        found = measure_runs(runs, judging.recipe().clusters, output, batches=batches, say=say)
        shown = ["kind", "cluster_size", "batch_size", "filtered", "similarity", "loss", "score"]
        print(found[shown].round(4).to_string(index=False) if len(found) else "")
    print(f"\nTables are in {output}/probes; `cde-eval report` draws them.")
