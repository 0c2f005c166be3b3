"""`cde-eval beir-small`: fast BEIR, rescoring what a first retriever has found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from cde_core.errors import CdeError
from cde_eval.commands.devices import device_named
from cde_eval.commands.mteb import finished


def beir_small(
    model: tuple[str, ...],
    retriever: str = "gtr",
    depth: int = 1024,
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    context: tuple[str, ...] = ("corpus",),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    rules: Literal["paper", "mteb"] = "paper",
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    engine: str = "here",
    output: Path = Path("results"),
) -> None:
    """Score models on BEIR the fast way: they rank what a first retriever has found.

    Candidates that are missing are made first, as by `cde-eval candidates`; models embed nothing
    but the union of the lists. Recall of the candidates, the ceiling, stands beside the scores.

    Args:
        model: Models, in order, as after `cde-eval mteb --model`.
        retriever: gtr (GTR-base, as in the paper), bm25, or any model.
        depth: Candidates per query.
        tasks: Search tasks by name; by default the nine of the paper, or all of the data folders.
        data: Folders with data, as for `cde-eval mteb`.
        context: What contextual models read first: corpus, candidates (each query its own list),
            random, none, task:NAME, file:PATH.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples to draw per task; the score is their mean, with its spread.
        seed: Seed of the first draw.
        rules: paper (documents without titles, none with the query's own id) or mteb (with titles,
            own ids as each task says), for scores that are those of the full search.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model; vectors are always float32.
        engine: Where to embed and search: here, ray, or ray:ADDRESS of a cluster.
        output: Results folder.
    """
    from tqdm.auto import tqdm

    from cde_eval.contexts import ContextPolicy
    from cde_eval.encoders import LoadOptions
    from cde_eval.report.rescored import rescored_table
    from cde_eval.rescoring import RULES, rescore, search_tasks
    from cde_eval.run import Evaluation, Failure
    from cde_eval.tasks.catalogue import find_tasks

    if not model:
        raise CdeError("--model names no model; `cde-eval encoders` lists what can be named.")
    if draws < 1:
        raise CdeError(f"--draws is {draws}; draw at least one sample.")
    policies = tuple(ContextPolicy(source, size, seed) for source in context)
    lent = [policy.argument for policy in policies if policy.kind == "task"]
    plan = Evaluation(
        models=model,
        tasks=tuple(search_tasks(tasks, data)),
        policies=policies,
        draws=draws,
        options=LoadOptions(device=device_named(device), dtype=dtype, engine=engine),
        task_lookup=tuple(find_tasks(lent, data=data)) if lent else (),
    )
    records, failures = [], []
    for outcome in rescore(plan, retriever, depth=depth, rules=RULES[rules], output=output):
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            records.append(outcome)
            tqdm.write(finished(outcome), file=sys.stderr)
    if records:
        print(rescored_table(records).to_string())
        print(f"\nRecords, mteb's own files and candidates are in {output}.")
    for failure in failures:
        print(f"cde-eval: {failure.reason}", file=sys.stderr)
    if not records or not all(failure.expected for failure in failures):
        sys.exit(2)
