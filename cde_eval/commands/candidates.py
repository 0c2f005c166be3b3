"""`cde-eval candidates`: the lists that a first retriever finds, as TREC run files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cde_eval.commands.options import COMPUTING, FLAT, Computing
from cde_eval.commands.outcomes import end, go_through

if TYPE_CHECKING:
    from cde_eval.candidates import Candidates


def candidates(
    retriever: str = "gtr",
    depth: int = 1024,
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    rules: Literal["paper", "mteb"] = "paper",
    computing: Annotated[Computing, FLAT] = COMPUTING,
    output: Path = Path("results"),
) -> None:
    """Find the best documents of every query with a first retriever, and keep the lists.

    Each list is a TREC run file under OUTPUT/candidates, which trec_eval, pytrec_eval, ir_measures
    and ranx read; its first line, an entry for a query that nobody judges, says how it was made.

    Args:
        retriever: gtr (GTR-base), bm25, or any model as after `cde-eval mteb --model`.
        depth: Documents to keep per query.
        tasks: Search tasks by name; by default the nine of the paper, or all of the data folders.
        data: Folders with data, as for `cde-eval mteb`.
        rules: paper (a document with the query's own id is dropped) or mteb (as each task says).
        computing: Device, precision and machines.
        output: Results folder.
    """
    from cde_eval.rescoring import NINE, RULES, SEARCH_TYPES, all_candidates
    from cde_eval.tasks.search_data import search_tasks

    made = all_candidates(
        search_tasks(tasks, data, otherwise=NINE, types=SEARCH_TYPES),
        retriever,
        depth=depth,
        rules=RULES[rules],
        output=output,
        options=computing.options(),
    )
    end(*go_through(made, _print_lists))


def _print_lists(found: Candidates) -> None:
    print(f"{found.source.name}: Recall@{found.depth} {found.recall:.4f}")
    for place, path in found.files.items():
        print(f"  {len(found.lists[place].lists)} queries: {path}", flush=True)
