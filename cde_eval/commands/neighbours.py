"""`cde-eval neighbours`: how near are the neighbours of a training pair?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_core.errors import CdeError
from cde_eval.commands.options import FLAT, JUDGING, Judging
from cde_eval.commands.outcomes import say


def neighbours(
    judging: Annotated[Judging, FLAT] = JUDGING,
    queries: int = 1000,
    shown: int = 3,
    nearest: int = 10,
    seed: int = 0,
    output: Path = Path("results"),
) -> None:
    """Show the nearest neighbours of some training pairs, and count possible false negatives.

    A document that is at least as near to a query as its own answer, though nobody says that it
    answers it, would be a false negative in a batch of neighbours; --queries pairs are asked.

    Args:
        judging: Pairs, and what judges them.
        queries: Pairs drawn by chance.
        shown: How many of them are shown with their neighbours.
        nearest: Neighbours of each.
        seed: Of the draw.
        output: Results folder.
    """
    from cde_eval.probes.neighbours import PROBE, measure_neighbours
    from cde_eval.probes.pairs import judged_pairs
    from cde_eval.report.neighbours import counts_in_words, neighbour_table

    if min(queries, nearest) < 1 or shown < 0:
        raise CdeError(
            f"--queries is {queries}, --nearest {nearest} and --shown {shown}; the least that "
            "work are 1, 1 and 0."
        )
    judged = judged_pairs(judging.recipe(), say)
    found = measure_neighbours(
        judged, output, queries=queries, shown=shown, nearest=nearest, seed=seed
    )
    for pair in found.loc[found["rank"] == 1, "pair"]:
        print(neighbour_table(found, int(pair)).to_string(index=False, max_colwidth=60), "\n")
    print(counts_in_words(found, len(judged.pairs)))
    print(f"\nThe table is in {output}/probes/{PROBE}.")
