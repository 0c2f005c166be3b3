"""The built-in tasks: documentation of installed packages, with no download.

    Documentation ──▶ a retrieval task per package     summary sentence → rest of its docstring
                  ├─▶ DocsPackageClassification        which package is this text from?
                  └─▶ DocsModuleClustering             which module is this text from?

Every package is a domain with a language of its own, which is what a context can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTask

from cde_eval.tasks.docstrings import PYTHON
from cde_eval.tasks.documentation import DOMAINS, DocPair, Documentation, load_documentation
from cde_eval.tasks.local import local_task

CLASSIFICATION = "DocsPackageClassification"
CLUSTERING = "DocsModuleClustering"
TEST_SHARE = 4
"""One text in so many is for testing the classifier."""
SMALLEST_MODULE = 30
"""Documents that a module must have to be one of the clusters."""

_TITLES = {PYTHON: "PythonStandardLibrary", "sklearn": "ScikitLearn", "networkx": "NetworkX"}


def retrieval_name(domain: str) -> str:
    """Name of the retrieval task of a package: "scipy" is DocsScipy."""
    return "Docs" + _TITLES.get(domain, domain.capitalize())


def builtin_tasks() -> dict[str, tuple[str, Callable[[], AbsTask]]]:
    """Type and maker of every built-in task by name; nothing is read until a task is made."""
    from cde_eval.tasks.docstrings import installed_version

    present = [domain for domain in DOMAINS if installed_version(domain)]
    tasks: dict[str, tuple[str, Callable[[], AbsTask]]] = {
        retrieval_name(d): ("Retrieval", lambda d=d: _retrieval_task(d))  # type: ignore[misc]
        for d in present
    }
    tasks[CLASSIFICATION] = ("Classification", _classification_task)
    tasks[CLUSTERING] = ("Clustering", _clustering_task)
    return tasks


def documents_outside(task_name: str) -> tuple[list[str], str]:
    """Built-in documents that are not of the task's own domain, and the revision they have.

    They are what the context policy `random` reads. For a task that is not built in that is all
    of them; for the two tasks that span every package as well, since there is no other.
    """
    documentation = load_documentation()
    outside = [
        pair.document for pair in documentation.pairs if retrieval_name(pair.domain) != task_name
    ]
    return outside, _revision(documentation)


def _retrieval_task(domain: str) -> AbsTask:
    documentation = load_documentation()
    pairs = documentation.in_domain(domain)
    return local_task(
        retrieval_name(domain),
        "Retrieval",
        read=lambda: {"default": {"test": _retrieval(pairs)}},
        revision=_revision(documentation),
        description=f"The summary of each object in {domain} asks for the rest of its docstring.",
    )


def _classification_task() -> AbsTask:
    documentation = load_documentation()
    return local_task(
        CLASSIFICATION,
        "Classification",
        read=lambda: _classification(documentation.pairs),
        revision=_revision(documentation),
        description="Which package is a docstring from? Its own name and summary are removed.",
    )


def _clustering_task() -> AbsTask:
    documentation = load_documentation()
    return local_task(
        CLUSTERING,
        "Clustering",
        read=lambda: _clustering(documentation.pairs),
        revision=_revision(documentation),
        description="Which module is a docstring from? Modules with few docstrings are left out.",
        max_document_to_embed=None,
        max_fraction_of_documents_to_embed=None,
    )


def _retrieval(pairs: Sequence[DocPair]) -> dict[str, Any]:
    return {
        "corpus": Dataset.from_list(
            [{"id": f"d:{pair.id}", "title": "", "text": pair.document} for pair in pairs]
        ),
        "queries": Dataset.from_list(
            [{"id": f"q:{pair.id}", "text": pair.query} for pair in pairs]
        ),
        "relevant_docs": {f"q:{pair.id}": {f"d:{pair.id}": 1} for pair in pairs},
        "top_ranked": None,
    }


def _classification(pairs: Sequence[DocPair]) -> DatasetDict:
    """Pairs of a domain are in the order of their hash, so every fourth is a fair sample."""
    splits: dict[str, list[dict[str, str]]] = {"train": [], "test": []}
    for number, pair in enumerate(pairs):
        split = "test" if number % TEST_SHARE == 0 else "train"
        splits[split].append({"text": pair.document, "label": pair.domain})
    return DatasetDict({name: Dataset.from_list(rows) for name, rows in splits.items()})


def _clustering(pairs: Sequence[DocPair]) -> DatasetDict:
    sizes = Counter(pair.subpackage for pair in pairs)
    rows = [
        {"sentences": pair.document, "labels": pair.subpackage}
        for pair in pairs
        if sizes[pair.subpackage] >= SMALLEST_MODULE
    ]
    return DatasetDict({"test": Dataset.from_list(rows)})


def _revision(documentation: Documentation) -> str:
    return f"sha256-{documentation.revision[:12]}"
