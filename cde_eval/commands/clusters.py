"""`cde-eval clusters`: what is in a cluster of training pairs?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_core.errors import CdeError
from cde_eval.commands.options import FLAT, JUDGING, Judging
from cde_eval.commands.outcomes import say


def clusters(
    judging: Annotated[Judging, FLAT] = JUDGING,
    size: int = 256,
    shown: int = 3,
    samples: int = 16,
    seed: int = 0,
    output: Path = Path("results"),
) -> None:
    """Show some pairs of a few clusters, and how alike pairs of a cluster are.

    Args:
        judging: Pairs, and what judges them.
        size: Pairs per cluster wanted.
        shown: Clusters that are drawn, the larger the likelier.
        samples: Pairs shown of each.
        seed: Of the draws.
        output: Results folder.
    """
    from cde_eval.probes.clusters import PROBE, measure_clusters
    from cde_eval.probes.pairs import judged_pairs
    from cde_eval.report.neighbours import cluster_in_words, cluster_table

    if min(size, shown, samples) < 1:
        raise CdeError(f"--size is {size}, --shown {shown} and --samples {samples}; the least "
                       "that works is 1.")  # fmt: skip
    found = measure_clusters(
        judged_pairs(judging.recipe(), say),
        output,
        size=size,
        shown=shown,
        samples=samples,
        seed=seed,
        say=say,
    )
    for number in dict.fromkeys(found["drawn"]):
        print(cluster_in_words(found, number))
        print(cluster_table(found, number).to_string(index=False, max_colwidth=60), "\n")
    print(f"The table is in {output}/probes/{PROBE}.")
