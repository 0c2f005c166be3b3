"""Fast BEIR: a model ranks what a first retriever has found, and nothing else.

    tasks ──▶ candidates of a retriever ──▶ rescored tasks ──▶ evaluate ──▶ records

Scoring a large corpus takes days on a small machine. Rescoring the best 1024 documents of each
query takes a fraction, since only the union of the lists is embedded; what the retriever missed is
missed, so its recall is the ceiling. A rescored task is the task itself with its lists, and goes
through the same evaluation as any other.

Source: Morris and Rush (2024), section 10.9: nine sets of BEIR, the top 1024 of GTR,
https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mteb.abstasks import AbsTask, AbsTaskRetrieval

from cde_core.errors import CdeError, DataError
from cde_eval.candidates import Candidates, find_candidates, retriever_model
from cde_eval.encoders import LoadOptions
from cde_eval.encoders.kept import load_kept
from cde_eval.plan import Evaluation, Failure
from cde_eval.results import RunRecord
from cde_eval.run import evaluate
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.search_data import Place
from cde_eval.trec_run import CandidateLists

NINE = ("ArguAna", "FiQA2018", "MSMARCO", "NFCorpus", "NQ", "QuoraRetrieval", "SCIDOCS", "SciFact",
        "TRECCOVID")  # fmt: skip
"""The sets of the paper's fast evaluation, by mteb's names."""

SEARCH_TYPES = ("Retrieval", "InstructionRetrieval")
"""Types of tasks whose corpus a retriever can search."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How candidates are made and rescored."""

    name: str

    titles: bool
    """Whether the rescored documents have their titles in front."""

    drops_own_ids: bool
    """Whether a document with the query's own id is dropped in every task, or only in those whose
    mteb task does so."""


RULES: Mapping[str, Rules] = MappingProxyType(
    {
        rules.name: rules
        for rules in (
            Rules("paper", titles=False, drops_own_ids=True),
            Rules("mteb", titles=True, drops_own_ids=False),
        )
    }
)


def all_candidates(
    tasks: Sequence[TaskSource],
    retriever: str,
    *,
    depth: int,
    rules: Rules,
    output: Path,
    options: LoadOptions,
) -> Iterator[Candidates | Failure]:
    """The candidates of each task, made where they are missing.

    Args:
        tasks: Search tasks.
        retriever: As after `--retriever`.
        depth: Candidates per query.
        rules: How they are made.
        output: Results folder.
        options: How the retriever is loaded.

    Raises:
        ModelError: If the retriever cannot be loaded.
    """
    first = load_kept(retriever_model(retriever), options)
    for source in tasks:
        try:
            yield find_candidates(
                source,
                first,
                depth=depth,
                drop_own_ids=rules.drops_own_ids,
                output=output,
                device=options.device,
            )
        except CdeError as error:
            yield Failure(retriever, source.name, str(error))


def rescore(
    plan: Evaluation, retriever: str, *, depth: int, rules: Rules, output: Path
) -> Iterator[RunRecord | Failure]:
    """Evaluate a plan's models on their tasks' candidates, which are made where they are missing.

    Args:
        plan: Its tasks are search tasks.
        retriever: As after `--retriever`.
        depth: Candidates per query.
        rules: How they are made and rescored.
        output: Results folder.

    Raises:
        ModelError: If a model or the retriever cannot be loaded.
    """
    for model in plan.models:  # what does not load is known before work starts
        plan.encoder(model)
    for found in all_candidates(
        plan.tasks, retriever, depth=depth, rules=rules, output=output, options=plan.options
    ):
        if isinstance(found, Failure):
            yield found
        else:
            tasks = (rescored(found, rules),)
            yield from evaluate(dataclasses.replace(plan, tasks=tasks), output)


def rescored(candidates: Candidates, rules: Rules) -> TaskSource:
    """The task with these lists: a model ranks each query's candidates and nothing else."""
    source, depth = candidates.source, candidates.depth
    lists = candidates.lists
    digest = _digest(lists, depth)
    header = next(iter(lists.values())).header
    label = f"{header.retriever}-{depth}-{digest[:12]}"
    about = {
        "retriever": header.retriever,
        "retriever_revision": header.retriever_revision,
        "depth": depth,
        "sha256": digest,
        "titles": rules.titles,
        "excludes_own_id": header.excludes_own_id,
        "recall": candidates.recall,
    }

    def make() -> AbsTask:
        task = source.make()
        assert isinstance(task, AbsTaskRetrieval)
        _rescore(task, lists, depth, rules)
        return task

    choices = {"candidates": label, "titles": "yes" if rules.titles else "no"}
    return dataclasses.replace(source, make=make, choices=choices, candidates=about)


def _digest(lists: Mapping[Place, CandidateLists], depth: int) -> str:
    """Of what is rescored, whatever deeper lists it was taken from."""
    digest = hashlib.sha256()
    for place, one in sorted(lists.items()):
        digest.update(f"{place}\n".encode())
        for query, documents in one.top(depth).items():
            digest.update("\t".join([query, *documents, "\n"]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _rescore(
    task: AbsTaskRetrieval, lists: Mapping[Place, CandidateLists], depth: int, rules: Rules
) -> None:
    """Have a task load its data with candidates, and by the rules' documents and ids."""
    load, done = task.load_data, False

    def load_data(num_proc: int | None = None, **kwargs: Any) -> None:
        nonlocal done
        if done:
            return
        done = True
        load(num_proc=num_proc, **kwargs)  # does nothing if its maker has loaded it already
        task.convert_v1_dataset_format_to_v2(num_proc=None)
        for (subset, split), one in lists.items():
            data = task.dataset[subset][split]
            data["top_ranked"] = _checked(one.top(depth), data, task)
            if not rules.titles and "title" in data["corpus"].column_names:
                data["corpus"] = data["corpus"].remove_columns("title")

    task.load_data = load_data  # type: ignore[method-assign]
    task._top_k = depth
    task.ignore_identical_ids = rules.drops_own_ids or task.ignore_identical_ids


def _checked(top: dict[str, list[str]], data: Any, task: AbsTask) -> dict[str, list[str]]:
    known = set(data["corpus"]["id"])
    for query, documents in top.items():
        unknown = next((document for document in documents if document not in known), None)
        if unknown is not None:
            raise DataError(
                f"The candidates of {task.metadata.name} hold the document {unknown!r} for the "
                f"query {query!r}, and the corpus does not; delete them, and they are made again."
            )
    return top
