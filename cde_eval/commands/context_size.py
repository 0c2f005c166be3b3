"""`cde-eval context-size`: how many documents have to be read?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cde_eval.commands.options import COMPUTING, FLAT, Computing
from cde_eval.commands.outcomes import end, scored, with_files


def context_size(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    sizes: tuple[int | Literal["all"], ...] = (),
    context: tuple[str, ...] = ("corpus",),
    draws: int = 3,
    seed: int = 42,
    computing: Annotated[Computing, FLAT] = COMPUTING,
    output: Path = Path("results"),
) -> None:
    """Score models with contexts of growing size: does reading more documents help?

    The same command continues a run that was stopped.

    Args:
        model: Models that read documents: bm25, centred:minilm, a contextual checkpoint.
        tasks: Search tasks by name; by default all of the data folders, or the built-in ones.
        data: Folders with data, as for `cde-eval mteb`.
        sizes: Documents to read; 0 is the null context, all the whole corpus. By default 0, 1, 4,
            16, … and as many as the model reads by itself.
        context: Whose documents: corpus; random beside it tells what any documents do.
        draws: Samples of each size for each task.
        seed: Seed of the first draw.
        computing: Device, precision and machines.
        output: Results folder.
    """
    from cde_eval.probes.context_size import size_plan, usual_sizes
    from cde_eval.probes.readers import readers, why_not_without
    from cde_eval.report.context_points import LEAST, curve_table, size_curves
    from cde_eval.report.evaluations import evaluations
    from cde_eval.tasks.search_data import search_tasks

    options = computing.options()
    sources = search_tasks(tasks, data)
    encoders, idle = readers(model, options)
    notes, plans = list(idle), []
    for name, encoder in encoders.items():
        asked = [None if size == "all" else size for size in sizes]
        wanted = asked or list(usual_sizes(encoder.context_size))
        if 0 in wanted and (reason := why_not_without(encoder)):
            notes.append(f"{name} is left out at size 0: {reason}")
            wanted = [size for size in wanted if size != 0]
        plan = size_plan(
            name,
            encoder,
            sources,
            wanted,
            context=context,
            draws=draws,
            seed=seed,
            options=options,
        )
        plans.append(plan)
    records, failures = scored(plans, output)
    made = with_files(records, output)
    if made:
        points = size_curves(evaluations(made))
        too_few = f"A curve needs {LEAST} sizes; name more after --sizes, or none at all."
        print(curve_table(points).to_string(index=False) if len(points) else too_few)
        print(f"\nRecords are in {output}; `cde-eval report` draws them.")
    end(records, failures, notes)
