"""`cde-eval context-space`: the same documents under different contexts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from cde_eval.commands.devices import device_named


def context_space(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    context: tuple[str, ...] = ("corpus", "random", "none"),
    size: int | None = None,
    draws: int = 8,
    seed: int = 42,
    documents: int = 200,
    drawn: int = 8,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    engine: str = "here",
    output: Path = Path("results"),
) -> None:
    """Embed the same documents under different contexts: figure 15 of the CDE paper.

    Args:
        model: Contextual models, in order, as after `cde-eval mteb --model`.
        tasks: Search tasks by name; DocsNetworkX by default, or all search tasks of the folders.
        data: Folders with data, as for `cde-eval mteb`.
        context: What the models read first: corpus, random, none, task:NAME, file:PATH.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples to draw per context.
        seed: Seed of the first draw, and of the documents that are looked at.
        documents: Documents, at most, that the numbers speak of.
        drawn: How many of them are in the picture.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model; vectors are always float32.
        engine: Where to embed: here, ray, or ray:ADDRESS of a cluster.
        output: Results folder.
    """
    import pandas as pd

    from cde_eval.encoders import LoadOptions
    from cde_eval.probes.context_space import Shown
    from cde_eval.probes.context_space import context_space as look
    from cde_eval.probes.search_data import probe_plan
    from cde_eval.report.context_space import movement_table
    from cde_eval.run import Failure

    plan = probe_plan(
        model,
        tasks=tasks,
        data=data,
        context=context,
        size=size,
        draws=draws,
        seed=seed,
        options=LoadOptions(device=device_named(device), dtype=dtype, engine=engine),
    )
    shown = Shown(documents=documents, drawn=drawn, text_seed=seed)
    outcomes = list(look(plan, output, shown))
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    tables = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    if tables:
        print(movement_table(pd.concat(tables)).to_string(index=False))
        print(f"\nEvery number is in {output / 'probes' / 'context-space'}.")
    for failure in failures:
        print(f"cde-eval: {failure.reason}", file=sys.stderr)
    if failures:
        sys.exit(2)
