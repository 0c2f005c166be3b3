"""Which search tasks are meant, and what their data is."""

import pytest

from cde_core.errors import TaskError
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.search_data import (
    judged_queries,
    load_search_task,
    places,
    search_data,
    search_tasks,
)
from tests.cde_eval.tasks import tiny_tasks
from tests.cde_eval.tasks.tiny_tasks import pairs, tiny_task

STS = TaskSource("TinySTS", "built-in", lambda: tiny_task("STS", pairs(score=[1, 2, 3])))


def source(*splits: str, **changes: object) -> TaskSource:
    data = tiny_tasks.search_data() | changes
    of_splits = {split: data for split in splits or ("test",)}
    return TaskSource(
        "Tiny",
        "built-in",
        lambda: tiny_task("Retrieval", {"default": of_splits}, splits=tuple(of_splits)),
        "Retrieval",
    )


def test_what_is_named_is_meant_and_must_be_a_search():
    assert [one.name for one in search_tasks(["DocsNumpy"], otherwise=["DocsTorch"])] == [
        "DocsNumpy"
    ]
    with pytest.raises(TaskError, match="is a Classification task and no search of a corpus"):
        search_tasks(["DocsNumpy", "DocsPackageClassification"])
    with pytest.raises(TaskError, match=r"Did you mean .*'DocsNumpy'"):
        search_tasks(["DocsNumpi"])


def test_where_nothing_is_named_there_is_a_choice_or_all_that_are_built_in():
    assert [one.name for one in search_tasks(otherwise=["DocsTorch"])] == ["DocsTorch"]
    assert {one.kind for one in search_tasks()} == {"Retrieval"}


def test_folders_are_meant_before_any_choice_and_need_hold_a_search(monkeypatch, tmp_path):
    asked = []

    def find(names, data):
        asked.append((names, data))
        return [STS, source()]

    monkeypatch.setattr("cde_eval.tasks.search_data.find_tasks", find)
    assert [one.name for one in search_tasks((), [tmp_path], otherwise=["DocsTorch"])] == ["Tiny"]
    assert asked == [((), [tmp_path])]
    with pytest.raises(TaskError, match="None of these tasks is a search task"):
        search_tasks((), [tmp_path], types=("InstructionRetrieval",))


def test_the_kind_of_a_task_that_only_its_data_tells_is_that_of_the_task():
    assert STS.task_type == "" and STS.kind == "STS"


def test_queries_without_a_relevant_document_are_not_judged():
    judged = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 0}, "q3": {}}
    task = load_search_task(source(relevant_docs=judged))
    assert judged_queries(task, ("default", "test")) == {"q1": {"d1": 1, "d2": 0}}


def test_the_first_split_is_shown_and_all_are_places():
    several = source("dev", "test")
    assert list(places(several.make())) == [("default", "dev"), ("default", "test")]
    found = search_data(several)
    assert (found.subset, found.split) == ("default", "dev")
    assert list(found.documents)[:2] == ["Bread flour and water", "the mill grinds"]
    queries, documents = found.positive_pairs()
    # q1 is answered by d1 and q2 by d3; d2 is judged and not relevant.
    assert list(zip(queries, documents, strict=True)) == [(0, 0), (1, 2)]


def test_what_is_no_search_is_refused():
    with pytest.raises(TaskError, match="TinySTS is a STS task and no search of a corpus"):
        search_data(STS)


def test_a_task_on_which_nothing_is_judged_is_refused():
    with pytest.raises(TaskError, match="no judged query"):
        search_data(source(relevant_docs={"q1": {"d1": 0}}))
