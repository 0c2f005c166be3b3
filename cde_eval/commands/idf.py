"""`cde-eval idf`: do encoders lose to BM25 where the words of a corpus are unusual?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from cde_core.errors import CdeError
from cde_eval.commands.devices import device_named


def idf(
    model: tuple[str, ...] = (),
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    reference: str = "docs",
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    output: Path = Path("results"),
) -> None:
    """Compare what models lose to BM25 with how far each corpus is from a reference.

    Scores BM25 and the models on search tasks, as `cde-eval mteb` does, each with the corpus as
    context, and measures how far the IDF table of each corpus is from that of the reference, which
    should be what the models were trained on. Published scores of BEIR need no model.

    Args:
        model: Models to score, in order; none: only distances, for records that are there.
        tasks: Search tasks by name; by default all of the data folders, or the built-in ones.
        data: Folders with data, as for `cde-eval mteb`.
        reference: What corpora are compared with: task:MSMARCO, file:PATH, or pairs as `cde-train`
            names them, such as docs or a file.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the models.
        output: Results folder.
    """
    from cde_eval.contexts import ContextPolicy
    from cde_eval.encoders import LoadOptions
    from cde_eval.probes.idf import PROBE, measure_distances
    from cde_eval.report.idf import losses
    from cde_eval.results import read_records
    from cde_eval.run import Evaluation, Failure, evaluate
    from cde_eval.tasks.catalogue import find_tasks

    sources = [one for one in find_tasks(tasks, data=data) if one.task_type in ("", "Retrieval")]
    if not sources:
        raise CdeError("None of these tasks is a search task; name others with --tasks or --data.")
    reasons: list[str] = []
    found = measure_distances(
        sources, reference, output, data=data, failed=lambda error: reasons.append(str(error))
    )
    if model:
        plan = Evaluation(
            models=("bm25", *(one for one in model if one != "bm25")),
            tasks=tuple(sources),
            policies=(ContextPolicy("corpus"),),
            options=LoadOptions(device=device_named(device), dtype=dtype),
        )
        outcomes = list(evaluate(plan, output))
        reasons += [one.reason for one in outcomes if isinstance(one, Failure)]
    if not found.empty:
        table = found.drop(columns=["data", "data_hash"]).sort_values("per_word").round(4)
        wide = losses(read_records(output), found.assign(reference=reference))
        if not wide.empty:
            by_model = wide.pivot_table(index="task", columns="model", values="loss") * 100
            table = table.merge(by_model.round(2).add_prefix("bm25 − "), on="task", how="left")
        print(table.to_string(index=False))
        print(f"\nDistances from {reference} are in {output}/probes/{PROBE}; "
              "`cde-eval report` draws them against what models lose.")  # fmt: skip
    for reason in reasons:
        print(f"cde-eval: {reason}", file=sys.stderr)
    if found.empty:
        sys.exit(2)
