"""`cde-eval domains`: context from one domain, a search task of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_eval.commands.options import COMPUTING, FLAT, Computing
from cde_eval.commands.outcomes import end, scored, with_files


def domains(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    computing: Annotated[Computing, FLAT] = COMPUTING,
    output: Path = Path("results"),
) -> None:
    """Score models on every task with the documents of every task as context.

    Does a task's own corpus serve it best? Shows nDCG@10 of each task (rows) with documents of each
    (columns), best and nearly best marked. The same command continues a run that was stopped.

    Args:
        model: Models that read documents: bm25, centred:minilm, a contextual checkpoint.
        tasks: Search tasks by name, two or more; by default all of the data folders, or the
            built-in ones.
        data: Folders with data, as for `cde-eval mteb`.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples of each domain for each task; a score is their mean.
        seed: Seed of the first draw.
        computing: Device, precision and machines.
        output: Results folder.
    """
    from cde_eval.probes.domains import domains_plan
    from cde_eval.probes.readers import readers
    from cde_eval.report.domains import advantage_in_words, marked_table, matrices
    from cde_eval.report.evaluations import evaluations
    from cde_eval.tasks.search_data import search_tasks

    options = computing.options()
    sources = search_tasks(tasks, data)
    encoders, idle = readers(model, options)
    plan = domains_plan(encoders, sources, size=size, draws=draws, seed=seed, options=options)
    records, failures = scored([plan], output)
    made = with_files(records, output)
    for name, matrix in matrices(evaluations(made)).items():
        print(f"{name}, nDCG@10 × 100; ● within one point of the row's best")
        print(marked_table(matrix.scores).to_string(), "\n")
        print(advantage_in_words(matrix), "\n")
    if records:
        print(f"Records are in {output}; `cde-eval report` draws them.")
    end(records, failures, idle)
