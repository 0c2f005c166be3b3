"""`cde-eval mteb`: score models on tasks, each task lending its own context."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cde_eval.commands.options import COMPUTING, FLAT, READING, Computing, Reading, planned
from cde_eval.commands.outcomes import end, scored

if TYPE_CHECKING:
    from cde_eval.results import RunRecord


def mteb(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
    benchmark: str | None = None,
    data: tuple[Path, ...] = (),
    reading: Annotated[Reading, FLAT] = READING,
    protocol: str = "paper",
    rerank_prefix: Literal["classification", "search"] = "classification",
    computing: Annotated[Computing, FLAT] = COMPUTING,
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
        reading: Contexts and draws.
        protocol: Rules by which a task lends context: paper, author or mteb.
        rerank_prefix: Prefix of reranking tasks, for models that have prefixes.
        computing: Device, precision and machines.
        output: Results folder.
    """
    from cde_eval.protocols import protocol_named
    from cde_eval.tasks.catalogue import find_tasks

    plan = planned(
        model,
        find_tasks(tasks, types=types, benchmark=benchmark, data=data),
        reading,
        computing,
        data=data,
        protocol=protocol_named(protocol),
        rerank_as_search=rerank_prefix == "search",
    )
    records, failures = scored([plan], output)
    if records:
        _print_tables(records)
        print(f"\nRecords, and mteb's own files, are in {output}.")
    end(records, failures)


def _print_tables(records: list[RunRecord]) -> None:
    from cde_eval.report.tables import as_read, gain_table, score_table

    print(as_read(score_table(records)).to_string(index=False))
    gains = gain_table(records)
    if not gains.empty:
        print(f"\nWhat the corpus as context bought:\n{gains.to_string(index=False)}")
        print("Whether it is more than chance: cde-eval compare none corpus (search tasks).")
