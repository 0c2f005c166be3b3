"""`cde-eval clusters`: what is in a cluster of training pairs?"""

from __future__ import annotations

from pathlib import Path

from cde_core.errors import CdeError
from cde_eval.commands.difficulty import say


def clusters(
    pairs: tuple[str, ...] = ("docs",),
    surrogate: str = "minilm",
    surrogate_length: int = 0,
    size: int = 256,
    shown: int = 3,
    samples: int = 16,
    seed: int = 0,
    most_per_source: int = 0,
    device: str = "auto",
    output: Path = Path("results"),
) -> None:
    """Show some pairs of a few clusters, and how alike pairs of a cluster are.

    Args:
        pairs: Pairs as `cde-train` names them: docs, files, folders, hub:ORG/NAME.
        surrogate: What says how alike texts are: minilm, tfidf, a folder, encoder:NAME.
        surrogate_length: Tokens that it reads of a text; 0: as many as it can, and at most 512.
        size: Pairs per cluster wanted.
        shown: Clusters that are drawn, the larger the likelier.
        samples: Pairs shown of each.
        seed: Of the draws.
        most_per_source: Pairs read of every source, from its beginning; 0: all.
        device: Where the surrogate computes: auto, cpu, cuda, cuda:1, mps.
        output: Results folder.
    """
    from cde_eval.probes.clusters import PROBE, measure_clusters
    from cde_eval.probes.pairs import judged_pairs, recipe_for
    from cde_eval.report.neighbours import cluster_in_words, cluster_table

    if min(size, shown, samples) < 1:
        raise CdeError(f"--size is {size}, --shown {shown} and --samples {samples}; the least "
                       "that works is 1.")  # fmt: skip
    recipe = recipe_for(
        pairs,
        surrogate,
        surrogate_length=surrogate_length,
        most_per_source=most_per_source,
        device=device,
    )
    found = measure_clusters(
        judged_pairs(recipe, say),
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
