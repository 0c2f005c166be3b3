"""`cde-eval tokens-per-document`: many documents in brief, or few in detail?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_eval.commands.options import FLAT, LOADING, Loading
from cde_eval.commands.outcomes import end, scored, with_files


def tokens_per_document(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    tokens: tuple[int, ...] = (),
    draws: int = 3,
    seed: int = 42,
    loading: Annotated[Loading, FLAT] = LOADING,
    output: Path = Path("results"),
) -> None:
    """Score contextual transformers that read fewer documents in more detail.

    The number of context vectors stays what the checkpoint was made for; each document is cut into
    more of them, so fewer are read. Nothing is trained. The same command continues a stopped run.

    Args:
        model: Contextual checkpoints.
        tasks: Search tasks by name; by default all of the data folders, or the built-in ones.
        data: Folders with data, as for `cde-eval mteb`.
        tokens: Vectors per document, each a divisor of the context's; by default 1, 2, 4, 8, 16.
        draws: Samples of the corpus for each task.
        seed: Seed of the first draw.
        loading: Device and precision.
        output: Results folder.
    """
    from cde_eval.probes.readers import readers
    from cde_eval.probes.tokens_per_document import (
        contextual_transformer,
        tokens_plan,
        usual_tokens,
    )
    from cde_eval.report.context_points import curve_table, token_curves
    from cde_eval.report.evaluations import evaluations
    from cde_eval.tasks.search_data import search_tasks

    options = loading.options()
    sources = search_tasks(tasks, data)
    encoders, idle = readers(model, options)
    plans = [
        tokens_plan(name, encoder, sources, count, draws=draws, seed=seed, options=options)
        for name, encoder in encoders.items()
        for count in tokens or usual_tokens(contextual_transformer(name, encoder)[1])
    ]
    records, failures = scored(plans, output)
    made = with_files(records, output)
    if made:
        print(curve_table(token_curves(evaluations(made))).to_string(index=False))
        print(f"\nRecords are in {output}; `cde-eval report` draws them.")
    end(records, failures, idle)
