"""`cde-eval beir-small`: fast BEIR, rescoring what a first retriever has found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cde_eval.commands.options import COMPUTING, FLAT, READING, Computing, Reading, planned
from cde_eval.commands.outcomes import end, go_through, say_score


def beir_small(
    model: tuple[str, ...],
    retriever: str = "gtr",
    depth: int = 1024,
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    reading: Annotated[Reading, FLAT] = READING,
    rules: Literal["paper", "mteb"] = "paper",
    computing: Annotated[Computing, FLAT] = COMPUTING,
    output: Path = Path("results"),
) -> None:
    """Score models on BEIR the fast way: they rank what a first retriever has found.

    Candidates that are missing are made first, as by `cde-eval candidates`; models embed nothing
    but the union of the lists. Recall of the candidates, the ceiling, stands beside the scores.
    --context candidates has contextual models read each query's own list.

    Args:
        model: Models, in order, as after `cde-eval mteb --model`.
        retriever: gtr (GTR-base, as in the paper), bm25, or any model.
        depth: Candidates per query.
        tasks: Search tasks by name; by default the nine of the paper, or all of the data folders.
        data: Folders with data, as for `cde-eval mteb`.
        reading: Contexts and draws.
        rules: paper (documents without titles, none with the query's own id) or mteb (with titles,
            own ids as each task says), for scores that are those of the full search.
        computing: Device, precision and machines.
        output: Results folder.
    """
    from cde_eval.report.rescored import rescored_table
    from cde_eval.rescoring import NINE, RULES, SEARCH_TYPES, rescore
    from cde_eval.tasks.search_data import search_tasks

    sources = search_tasks(tasks, data, otherwise=NINE, types=SEARCH_TYPES)
    plan = planned(model, sources, reading, computing, data=data)
    outcomes = rescore(plan, retriever, depth=depth, rules=RULES[rules], output=output)
    records, failures = go_through(outcomes, say_score)
    if records:
        print(rescored_table(records).to_string())
        print(f"\nRecords, mteb's own files and candidates are in {output}.")
    end(records, failures)
