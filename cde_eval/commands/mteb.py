"""`cde-eval mteb`: score models on tasks, each task lending its own context."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

from cde_core.errors import CdeError
from cde_eval.commands.devices import device_named


def mteb(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
    benchmark: str | None = None,
    data: tuple[Path, ...] = (),
    context: tuple[str, ...] = ("corpus",),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    protocol: str = "paper",
    rerank_prefix: Literal["classification", "search"] = "classification",
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    engine: str = "here",
    output: Path = Path("results"),
) -> None:
    """Score models on MTEB and BEIR tasks, each task lending its own context.

    Without --tasks, --benchmark and --data it runs the built-in documentation tasks. Results are
    written as they are finished; the same command continues a run that was stopped.

    Args:
        model: Models, in order: minilm, bm25, centred:minilm, a folder, a hub name.
        tasks: Tasks by name, in order; `cde-eval tasks` lists them.
        types: Only tasks of these MTEB types, such as Retrieval or STS.
        benchmark: All tasks of an mteb benchmark, such as "MTEB(eng, v2)".
        data: Folders with data: BEIR folders, folders in the hub's layout, or folders of those.
        context: What contextual models read first: corpus, random, none, task:NAME, file:PATH.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples to draw per task; the score is their mean, with its spread.
        seed: Seed of the first draw.
        protocol: Rules by which a task lends context: paper, author or mteb.
        rerank_prefix: Prefix of reranking tasks, for models that have prefixes.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model; vectors are always float32.
        engine: Where to embed and search: here, ray, or ray:ADDRESS of a cluster.
        output: Results folder.
    """
    from tqdm.auto import tqdm

    from cde_eval.contexts import ContextPolicy
    from cde_eval.encoders import LoadOptions
    from cde_eval.protocols import protocol_named
    from cde_eval.run import Evaluation, Failure, evaluate
    from cde_eval.tasks.catalogue import find_tasks

    if not model:
        raise CdeError("--model names no model; `cde-eval encoders` lists what can be named.")
    if draws < 1:
        raise CdeError(f"--draws is {draws}; draw at least one sample.")
    options = LoadOptions(device=device_named(device), dtype=dtype, engine=engine)
    policies = tuple(ContextPolicy(source, size, seed) for source in context)
    lent = [policy.argument for policy in policies if policy.kind == "task"]
    plan = Evaluation(
        models=model,
        tasks=tuple(find_tasks(tasks, types=types, benchmark=benchmark, data=data)),
        policies=policies,
        protocol=protocol_named(protocol),
        draws=draws,
        options=options,
        rerank_as_search=rerank_prefix == "search",
        task_lookup=tuple(find_tasks(lent, data=data)) if lent else (),
    )
    outcomes = []
    for outcome in evaluate(plan, output):
        outcomes.append(outcome)
        if not isinstance(outcome, Failure):
            tqdm.write(finished(outcome), file=sys.stderr)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    records = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    if records:
        _print_tables(records)
        print(f"\nRecords, and mteb's own files, are in {output}.")
    for failure in failures:
        print(f"cde-eval: {failure.reason}", file=sys.stderr)
    if not records or not all(failure.expected for failure in failures):
        sys.exit(2)


def finished(record: Any) -> str:
    """A line that says what an evaluation gave."""
    scores = ", ".join("–" if one.main is None else f"{one.main:.4f}" for one in record.scores)
    draw = f" draw {record.draw + 1} of {record.draws}" if record.draws > 1 else ""
    return f"{record.task}: {record.model}, context {record.policy}{draw}: {scores}"


def _print_tables(records: list[Any]) -> None:
    from cde_eval.report.tables import as_read, gain_table, score_table

    print(as_read(score_table(records)).to_string(index=False))
    gains = gain_table(records)
    if not gains.empty:
        print(f"\nWhat the corpus as context bought:\n{gains.to_string(index=False)}")
