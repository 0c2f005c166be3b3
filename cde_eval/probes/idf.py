"""How far the words of a corpus are from those of another: the distance of their IDF tables.

    documents of a task ──▶ IDF table ─┐
                                       ├──▶ distance ──▶ OUTPUT/probes/idf, a row per task
    documents of a reference ──▶ same ─┘                     (scores are ordinary records)

An encoder that reads no context learns how much each word tells from its training texts, and keeps
that judgement in a corpus where it is wrong. BM25 counts anew. If that matters, an encoder loses
more to BM25 the farther a corpus is from what the encoder was trained on.

The paper gives neither formula nor tokenisation, only "IDF distance", in units of ten million. So
there are two distances here. `per_word` is the mean difference of IDF over the words of the corpus,
each as often as there are documents that hold it; it does not grow with the corpus. `total` is the
sum over all terms of either table, which has the size of the paper's numbers on corpora of theirs.

Source: Morris and Rush (2024), section 10.2 and figure 8, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cde_core.errors import CdeError, ConfigError
from cde_core.text import Purpose
from cde_eval.contexts import file_documents
from cde_eval.encoders.bm25 import Bm25, IdfTable, idf
from cde_eval.probes.pairs import source_names
from cde_eval.probes.table import ProbeTable
from cde_eval.protocols import PAPER
from cde_eval.tasks.catalogue import TaskSource, find_tasks
from cde_eval.tasks.lending import lent_documents
from cde_eval.tasks.search_data import load_search_task

PROBE = "idf"


@dataclass(frozen=True, slots=True)
class IdfDistance:
    """Of a corpus from a reference."""

    per_word: float
    """Mean over the words of the corpus of |IDF here − IDF there|, in nats."""

    total: float
    """Sum of the same over every term of either."""

    unseen: float
    """Share of the words of the corpus that the reference does not have, from 0 to 1."""

    terms: int
    """Distinct terms of the corpus."""

    documents: int


def idf_table(documents: Sequence[str]) -> IdfTable:
    """The IDF table of some documents, by BM25's own tokenisation: stemmed, no stop words."""
    return Bm25().read_context(documents, purpose=Purpose("Retrieval", "document"))


def idf_distance(corpus: IdfTable, reference: IdfTable) -> IdfDistance:
    """How far the IDF of a corpus is from that of a reference.

    Args:
        corpus: Whose words are judged.
        reference: What they are judged by; a term that it lacks has the IDF of zero documents.

    Raises:
        ConfigError: If one of them has no words.
    """
    if not corpus.frequency or not reference.frequency:
        raise ConfigError("One of the two corpora has no words; name another.")
    terms = list(corpus.frequency | reference.frequency)
    here = np.array([corpus.frequency.get(term, 0) for term in terms])
    there = np.array([reference.frequency.get(term, 0) for term in terms])
    difference = np.abs(idf(here, corpus.documents) - idf(there, reference.documents))
    return IdfDistance(
        per_word=float(difference @ here / here.sum()),
        total=float(difference.sum()),
        unseen=float(here[there == 0].sum() / here.sum()),
        terms=len(corpus.frequency),
        documents=corpus.documents,
    )


def reference_documents(name: str, data: Sequence[Path] = ()) -> list[str]:
    """The documents that others are compared with, each once.

    Args:
        name: task:NAME, file:PATH, or pairs as `cde-train` names them: docs, docs:-sympy, a
            folder or file of pairs, hub:ORG/NAME.
        data: Folders in which a task is looked for first.

    Raises:
        CdeError: If there is no such thing.
    """
    kind, _, argument = name.partition(":")
    if kind == "task":
        documents = task_documents(find_tasks([argument], data=data)[0])
    elif kind == "file":
        documents = file_documents(Path(argument))
    else:
        from cde_core.train.data.sources import prepare_pairs
        from cde_core.train.preparation import training_cache

        pairs = prepare_pairs([name], cache=training_cache()).pairs
        documents = (pair.document for pair in pairs)  # type: ignore[assignment]
    return list(dict.fromkeys(documents))


def task_documents(source: TaskSource) -> Sequence[str]:
    """The corpus of a search task.

    Raises:
        TaskError: If it is no search task, or its data cannot be loaded.
    """
    task = load_search_task(source)
    return lent_documents(task, task.eval_splits[0], task.hf_subsets[0], PAPER)


def measure_distances(
    sources: Sequence[TaskSource],
    reference: str,
    output: Path,
    *,
    data: Sequence[Path] = (),
    failed: Callable[[CdeError], object] = lambda error: None,
) -> pd.DataFrame:
    """Distance of every task's corpus from the reference, from disk where it is there.

    Args:
        sources: Search tasks.
        reference: See `reference_documents`.
        output: Results folder.
        data: Folders in which a task that is the reference is looked for first.
        failed: Told why a task was left out.

    Returns:
        A row per task: `task`, `data` and `data_hash`, which name its exact content, and
        `IdfDistance`'s fields.
    """
    documents = reference_documents(reference, data)
    there = idf_table(documents)
    encoder = Bm25()
    about = {
        "model": "bm25",
        "model_name": encoder.name,
        "revision": encoder.revision,
        "reference": source_names([reference])[0],
        "reference_documents": len(documents),
        "reference_sha256": hashlib.sha256("\0".join(documents).encode()).hexdigest()[:16],
    }
    table = ProbeTable(output, PROBE, about, cell=["task", "data", "data_hash"])
    wanted = [(source, _content(source)) for source in sources]
    for source, content in wanted:
        if table.has(task=source.name, **content):
            continue
        try:
            found = idf_distance(idf_table(task_documents(source)), there)
        except CdeError as error:
            failed(error)
            continue
        table.add([asdict(found)], task=source.name, **content)
    if table.frame.empty:
        return table.frame
    asked = pd.DataFrame([{"task": source.name, **content} for source, content in wanted])
    return asked.merge(table.frame.astype(dict.fromkeys(asked.columns, str)))


def _content(source: TaskSource) -> dict[str, str]:
    """What names the exact data of a task, as records have it."""
    revision = str(source.make().metadata.revision)
    return {"data": revision, "data_hash": source.data_hash() or "none"}
