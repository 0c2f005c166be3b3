"""`cde-eval domains`: context from one domain, a search task of another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from cde_eval.commands.devices import device_named


def domains(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    engine: str = "here",
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
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model; vectors are always float32.
        engine: Where to embed and search: here, ray, or ray:ADDRESS of a cluster.
        output: Results folder.
    """
    from cde_eval.commands.outcomes import scored, with_files
    from cde_eval.encoders import LoadOptions
    from cde_eval.probes.domains import domains_plan
    from cde_eval.probes.readers import readers, search_tasks
    from cde_eval.report.domains import advantage_in_words, marked_table, matrices
    from cde_eval.report.evaluations import evaluations

    options = LoadOptions(device=device_named(device), dtype=dtype, engine=engine)
    sources = search_tasks(tasks, data)
    encoders, reasons = readers(model, options)
    plan = domains_plan(encoders, sources, size=size, draws=draws, seed=seed, options=options)
    records, failures = scored(plan, output)
    made = with_files(records, output)
    for name, matrix in matrices(evaluations(made)).items():
        print(f"{name}, nDCG@10 × 100; ● within one point of the row's best")
        print(marked_table(matrix.scores).to_string(), "\n")
        print(advantage_in_words(matrix), "\n")
    if records:
        print(f"Records are in {output}; `cde-eval report` draws them.")
    for reason in (*reasons, *failures):
        print(f"cde-eval: {reason}", file=sys.stderr)
    if failures:
        sys.exit(2)
