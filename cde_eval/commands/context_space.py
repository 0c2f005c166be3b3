"""`cde-eval context-space`: the same documents under different contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_eval.commands.options import COMPUTING, FLAT, Computing, Reading, planned
from cde_eval.commands.outcomes import end, go_through

READING = Reading(context=("corpus", "random", "none"), draws=8)


def context_space(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    reading: Annotated[Reading, FLAT] = READING,
    documents: int = 200,
    drawn: int = 8,
    computing: Annotated[Computing, FLAT] = COMPUTING,
    output: Path = Path("results"),
) -> None:
    """Embed the same documents under different contexts: figure 15 of the CDE paper.

    Args:
        model: Contextual models, in order, as after `cde-eval mteb --model`.
        tasks: Search tasks by name; DocsNetworkX by default, or all search tasks of the folders.
        data: Folders with data, as for `cde-eval mteb`.
        reading: Contexts and draws.
        documents: Documents, at most, that the numbers speak of; --seed draws these too.
        drawn: How many of them are in the picture.
        computing: Device, precision and machines.
        output: Results folder.
    """
    import pandas as pd

    from cde_eval.probes.context_space import Shown
    from cde_eval.probes.context_space import context_space as look
    from cde_eval.probes.lent import DEFAULT_TASK
    from cde_eval.report.context_space import movement_table
    from cde_eval.tasks.search_data import search_tasks

    sources = search_tasks(tasks, data, otherwise=(DEFAULT_TASK,))
    plan = planned(model, sources, reading, computing, data=data)
    shown = Shown(documents=documents, drawn=drawn, text_seed=reading.seed)
    tables, failures = go_through(look(plan, output, shown))
    if tables:
        print(movement_table(pd.concat(tables)).to_string(index=False))
        print(f"\nEvery number is in {output / 'probes' / 'context-space'}.")
    end(tables, failures)
