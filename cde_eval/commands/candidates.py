"""`cde-eval candidates`: the lists that a first retriever finds, as TREC run files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from cde_core.errors import CdeError
from cde_eval.commands.devices import device_named


def candidates(
    retriever: str = "gtr",
    depth: int = 1024,
    tasks: tuple[str, ...] = (),
    data: tuple[Path, ...] = (),
    rules: Literal["paper", "mteb"] = "paper",
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    engine: str = "here",
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
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model.
        engine: Where to embed and search: here, ray, or ray:ADDRESS of a cluster.
        output: Results folder.
    """
    from cde_eval.candidates import find_candidates, retriever_model
    from cde_eval.encoders import LoadOptions
    from cde_eval.encoders.kept import load_kept
    from cde_eval.rescoring import RULES, search_tasks

    options = LoadOptions(device=device_named(device), dtype=dtype, engine=engine)
    encoder = load_kept(retriever_model(retriever), options)
    failed = False
    for source in search_tasks(tasks, data):
        try:
            found = find_candidates(
                source,
                encoder,
                depth=depth,
                drop_own_ids=RULES[rules].drops_own_ids,
                output=output,
                device=options.device,
            )
        except CdeError as error:
            print(f"cde-eval: {error}", file=sys.stderr)
            failed = True
            continue
        print(f"{source.name}: Recall@{depth} {found.recall:.4f}")
        for place, path in found.files.items():
            print(f"  {len(found.lists[place].lists)} queries: {path}", flush=True)
    if failed:
        sys.exit(2)
