"""`cde-eval geometry`: how a model's vectors lie in their space, under each context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_eval.commands.options import COMPUTING, FLAT, Computing, Reading, planned
from cde_eval.commands.outcomes import end, go_through

READING = Reading(context=("corpus", "random", "none"))


def geometry(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    reading: Annotated[Reading, FLAT] = READING,
    documents: int = 2_000,
    texts: int = 200,
    computing: Annotated[Computing, FLAT] = COMPUTING,
    output: Path = Path("results"),
) -> None:
    """Measure how vectors lie in their space: the same way, or spread, and in how many directions.

    Per task and context: mean cosine of pairs (anisotropy), uniformity, alignment of queries with
    their answers, variance by principal component, nDCG@10 with fewer dimensions; and, of models
    with layers, mean cosine of words and of a word's occurrences in every layer.

    Args:
        model: Models, in order, as after `cde-eval mteb --model`.
        tasks: Search tasks by name; DocsNetworkX by default, or all search tasks of the folders.
        data: Folders with data, as for `cde-eval mteb`.
        reading: Contexts and draws.
        documents: Documents, queries and pairs, at most, whose vectors are measured; --seed draws
            these too.
        texts: Documents, at most, whose words are followed through the layers.
        computing: Device, precision and machines.
        output: Results folder.
    """
    import pandas as pd

    from cde_eval.probes.geometry import Sizes
    from cde_eval.probes.geometry import geometry as measure
    from cde_eval.probes.lent import DEFAULT_TASK
    from cde_eval.report.geometry import summary_table
    from cde_eval.tasks.search_data import search_tasks

    sources = search_tasks(tasks, data, otherwise=(DEFAULT_TASK,))
    plan = planned(model, sources, reading, computing, data=data)
    sizes = Sizes(documents=documents, texts=texts, seed=reading.seed)
    tables, failures = go_through(measure(plan, output, sizes))
    if tables:
        print(summary_table(pd.concat(tables)).to_string(index=False))
        print(f"\nEvery number is in {output / 'probes' / 'geometry'}.")
    end(tables, failures)
