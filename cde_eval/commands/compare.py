"""`cde-eval compare`: is one run better than another, or might it be the choice of queries?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

SideA = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")]
SideB = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")]


def compare(
    a: SideA,
    b: SideB,
    /,
    *,
    results: Path = Path("results"),
    model: str | None = None,
    context: str | None = None,
    size: int | None = None,
    tasks: tuple[str, ...] = (),
    measure: str | None = None,
    seed: int = 0,
    out: Path = Path("comparison"),
) -> None:
    """Compare two runs query by query, and write a table and a picture of their differences.

    A run is one model with one context. A and B are each a results folder that holds one run (or
    several, of which --model, --context and --size choose), or a run in --results: the name of a
    context (corpus, random, none, task:NAME, file:PATH), of a model, or MODEL@CONTEXT. Differences
    are B − A, with a bootstrap interval over queries, and draws of the context where there are
    several, and a randomisation test over queries, corrected for the number of tasks. What was
    scored on other data, candidates or splits is refused.

    Args:
        a: The run to compare with: a results folder, a context, a model, or MODEL@CONTEXT.
        b: The run whose gain is asked for, named in the same way.
        results: Results folder of runs that are named and not folders themselves.
        model: The model, where A or B does not name it.
        context: The context, where A or B does not name it.
        size: Documents in the context, where there are runs of several sizes.
        tasks: Only these tasks; by default all that both have.
        measure: Measure, such as ndcg_at_10; by default each task's main measure.
        seed: Seed of the resampling.
        out: Folder for differences.csv, differences.md, differences.png and differences.svg.
    """
    from cde_eval.compare import compare as compare_sides
    from cde_eval.report.differences import (
        conclusion,
        difference_table,
        heading,
        write_differences,
    )
    from cde_eval.sides import find_side

    side_a, side_b = (
        find_side(letter, asked, results, model=model, context=context, size=size)
        for letter, asked in (("A", a), ("B", b))
    )
    found = compare_sides(side_a, side_b, tasks=tasks, measure=measure, seed=seed)
    paths = write_differences(found, out)
    print(heading(found))
    print(f"\n{difference_table(found).to_string(index=False)}\n")
    print("\n".join([conclusion(found), *found.notes]))
    print(f"\nTable and picture: {', '.join(map(str, paths))}")
