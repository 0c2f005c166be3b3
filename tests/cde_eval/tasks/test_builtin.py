from collections import Counter
from typing import Any

import mteb
import pytest

from cde_core.errors import TaskError
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.protocols import PAPER
from cde_eval.tasks import builtin
from cde_eval.tasks.builtin import builtin_tasks, documents_outside, retrieval_name
from cde_eval.tasks.documentation import DOMAINS, DocPair, Documentation
from cde_eval.tasks.lending import lent_documents
from tests.cde_eval.tiny_encoder import TinyEncoder


def pair(domain: str, module: str, number: int) -> DocPair:
    name = f"function{number}"
    place = f"{module}.{name}"
    return DocPair(place, domain, module, name, f"Ask {place}.", f"Answer of {module} {number}.")


# numpy: five in numpy.linalg; scipy: thirty in scipy.stats and twenty-nine in scipy.fft.
NUMPY = [pair("numpy", "numpy.linalg._core", number) for number in range(5)]
STATS = [pair("scipy", "scipy.stats._stats", number) for number in range(30)]
FFT = [pair("scipy", "scipy.fft", number) for number in range(29)]
DOCUMENTATION = Documentation((*NUMPY, *STATS, *FFT), {"numpy": "2.0", "python": "3.11"})


@pytest.fixture(autouse=True)
def documentation(monkeypatch: pytest.MonkeyPatch) -> Documentation:
    monkeypatch.setattr(builtin, "load_documentation", lambda: DOCUMENTATION)
    return DOCUMENTATION


def loaded(name: str) -> Any:
    task = builtin_tasks()[name][1]()
    task.load_data()
    return task


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        ("numpy", "DocsNumpy"),
        ("sklearn", "DocsScikitLearn"),
        ("networkx", "DocsNetworkX"),
        ("python", "DocsPythonStandardLibrary"),
    ],
)
def test_a_retrieval_task_is_named_after_its_package(domain: str, name: str):
    assert retrieval_name(domain) == name


def test_every_domain_has_a_name_of_its_own():
    assert len({retrieval_name(domain) for domain in DOMAINS}) == len(DOMAINS)


def test_there_is_a_task_per_installed_package_and_two_over_all(monkeypatch: pytest.MonkeyPatch):
    from cde_eval.tasks import docstrings

    installed = {"numpy": "2.0", "scipy": "1.0"}
    monkeypatch.setattr(docstrings, "installed_version", installed.get)
    assert {name: kind for name, (kind, _) in builtin_tasks().items()} == {
        "DocsNumpy": "Retrieval",
        "DocsScipy": "Retrieval",
        "DocsPackageClassification": "Classification",
        "DocsModuleClustering": "Clustering",
    }


def test_nothing_is_read_until_a_task_is_made(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> None:
        raise AssertionError("read too early")

    monkeypatch.setattr(builtin, "load_documentation", refuse)
    assert "DocsNumpy" in builtin_tasks()


def test_the_types_and_names_that_are_listed_are_those_that_are_made():
    for name in ("DocsNumpy", "DocsPackageClassification", "DocsModuleClustering"):
        kind, make = builtin_tasks()[name]
        assert (make().metadata.name, make().metadata.type) == (name, kind)


def test_retrieval_asks_each_summary_for_its_own_docstring():
    data = loaded("DocsNumpy").dataset["default"]["test"]
    assert list(data["queries"]) == [
        {"id": f"q:numpy.linalg._core.function{n}", "text": f"Ask numpy.linalg._core.function{n}."}
        for n in range(5)
    ]
    assert list(data["corpus"]) == [
        {
            "id": f"d:numpy.linalg._core.function{n}",
            "title": "",
            "text": f"Answer of numpy.linalg._core {n}.",
        }
        for n in range(5)
    ]
    assert data["relevant_docs"] == {
        f"q:numpy.linalg._core.function{n}": {f"d:numpy.linalg._core.function{n}": 1}
        for n in range(5)
    }
    assert data["top_ranked"] is None


def test_a_query_and_its_document_have_ids_of_their_own():
    # mteb drops a document that has the id of its query where a task says so.
    data = loaded("DocsScipy").dataset["default"]["test"]
    assert not set(data["queries"]["id"]) & set(data["corpus"]["id"])


def test_a_retrieval_task_is_scored_by_mteb():
    # Every document shares a number with its own query alone, and the rest with all of them.
    model = MtebEncoder(TinyEncoder(context_size=0))
    task = builtin_tasks()["DocsNumpy"][1]()
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    assert 0 < result.task_results[0].get_score() <= 1


def test_every_fourth_text_tests_the_classifier():
    data = loaded("DocsPackageClassification").dataset
    pairs = DOCUMENTATION.pairs
    assert list(data["test"]) == [
        {"text": p.document, "label": p.domain} for n, p in enumerate(pairs) if n % 4 == 0
    ]
    assert list(data["train"]) == [
        {"text": p.document, "label": p.domain} for n, p in enumerate(pairs) if n % 4
    ]
    assert lent_documents(loaded("DocsPackageClassification"), "test", "default", PAPER) == list(
        data["train"]["text"]
    )


def test_clusters_are_modules_of_thirty_texts_or_more():
    data = loaded("DocsModuleClustering").dataset["test"]
    assert Counter(data["labels"]) == {"scipy.stats": 30}  # 29 of scipy.fft are too few
    assert list(data["sentences"]) == [p.document for p in STATS]


def test_clustering_embeds_every_text():
    task = loaded("DocsModuleClustering")
    assert task.max_document_to_embed is None
    assert task.max_fraction_of_documents_to_embed is None


def test_the_revision_of_every_task_is_that_of_the_documentation():
    revision = f"sha256-{DOCUMENTATION.revision[:12]}"
    for name in ("DocsNumpy", "DocsPackageClassification", "DocsModuleClustering"):
        assert builtin_tasks()[name][1]().metadata.revision == revision


def test_a_package_without_documentation_is_named():
    with pytest.raises(TaskError, match="no documentation of 'pandas'"):
        builtin_tasks()["DocsPandas"][1]()


# What the policy `random` reads


def test_random_documents_are_of_other_packages_than_the_tasks():
    documents, revision = documents_outside("DocsScipy")
    assert documents == [p.document for p in NUMPY]
    assert revision == f"sha256-{DOCUMENTATION.revision[:12]}"


@pytest.mark.parametrize("task", ["NFCorpus", "DocsPackageClassification", "DocsModuleClustering"])
def test_other_tasks_read_of_every_package(task: str):
    assert documents_outside(task)[0] == [p.document for p in DOCUMENTATION.pairs]
