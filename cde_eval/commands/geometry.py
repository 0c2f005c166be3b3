"""`cde-eval geometry`: how a model's vectors lie in their space, under each context."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from cde_eval.commands.devices import device_named


def geometry(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    context: tuple[str, ...] = ("corpus", "random", "none"),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    documents: int = 2_000,
    texts: int = 200,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    engine: str = "here",
    output: Path = Path("results"),
) -> None:
    """Measure how vectors lie in their space: the same way, or spread, and in how many directions.

    Per task and context: mean cosine of pairs (anisotropy), uniformity, alignment of queries with
    their answers, variance by principal component, nDCG@10 with fewer dimensions; and, of models
    with layers, mean cosine of words and of a word's occurrences in every layer.

    Args:
        model: Models, in order, as after `cde-eval mteb --model`.
        tasks: Search tasks by name; DocsNetworkX by default, or all search tasks of the folders.
        data: Folders with data, as for `cde-eval mteb`.
        context: What contextual models read first: corpus, random, none, task:NAME, file:PATH.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples to draw per context.
        seed: Seed of the first draw, and of the texts that are looked at.
        documents: Documents, queries and pairs, at most, whose vectors are measured.
        texts: Documents, at most, whose words are followed through the layers.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model; vectors are always float32.
        engine: Where to embed: here, ray, or ray:ADDRESS of a cluster.
        output: Results folder.
    """
    import pandas as pd

    from cde_eval.encoders import LoadOptions
    from cde_eval.probes.geometry import Sizes
    from cde_eval.probes.geometry import geometry as measure
    from cde_eval.probes.search_data import probe_plan
    from cde_eval.report.geometry import summary_table
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
    sizes = Sizes(documents=documents, texts=texts, seed=seed)
    outcomes = list(measure(plan, output, sizes))
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    tables = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    if tables:
        print(summary_table(pd.concat(tables)).to_string(index=False))
        print(f"\nEvery number is in {output / 'probes' / 'geometry'}.")
    for failure in failures:
        print(f"cde-eval: {failure.reason}", file=sys.stderr)
    if not tables or not all(failure.expected for failure in failures):
        sys.exit(2)
