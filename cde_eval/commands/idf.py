"""`cde-eval idf`: do encoders lose to BM25 where the words of a corpus are unusual?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cde_eval.commands.options import FLAT, LOADING, READING, Loading, planned
from cde_eval.commands.outcomes import end, scored


def idf(
    model: tuple[str, ...] = (),
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    reference: str = "docs",
    loading: Annotated[Loading, FLAT] = LOADING,
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
        loading: Device and precision.
        output: Results folder.
    """
    from cde_eval.probes.idf import PROBE, measure_distances
    from cde_eval.report.idf import losses
    from cde_eval.results import read_records
    from cde_eval.tasks.search_data import search_tasks

    sources = search_tasks(tasks, data)
    reasons: list[str] = []
    found = measure_distances(
        sources, reference, output, data=data, failed=lambda error: reasons.append(str(error))
    )
    if model:
        models = ("bm25", *(one for one in model if one != "bm25"))
        _, failures = scored([planned(models, sources, READING, loading)], output)
        reasons += [failure.reason for failure in failures]
    if not found.empty:
        table = found.drop(columns=["data", "data_hash"]).sort_values("per_word").round(4)
        wide = losses(read_records(output), found.assign(reference=reference))
        if not wide.empty:
            by_model = wide.pivot_table(index="task", columns="model", values="loss") * 100
            table = table.merge(by_model.round(2).add_prefix("bm25 − "), on="task", how="left")
        print(table.to_string(index=False))
        print(f"\nDistances from {reference} are in {output}/probes/{PROBE}; "
              "`cde-eval report` draws them against what models lose.")  # fmt: skip
    end(found, notes=reasons)
