import json
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from cde_core.errors import DataError, TaskError
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.tasks.catalogue import TaskSource, find_tasks, folder_tasks, known_tasks
from tests.cde_eval.tasks.test_hub_folder import LABELLED, SEARCH, STS_ROWS, offline, write_folder
from tests.cde_eval.tiny_encoder import TinyEncoder

__all__ = ["offline"]


def write_beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "flour"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "bread"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    return folder


def names(sources: list[TaskSource]) -> list[str]:
    return [source.name for source in sources]


# Names, types, benchmarks


def test_names_are_found_in_their_order_among_built_in_and_official_tasks():
    found = find_tasks(["STS12", "DocsNumpy", "NFCorpus"])
    assert [(s.name, s.origin, s.task_type) for s in found] == [
        ("STS12", "mteb", "STS"),
        ("DocsNumpy", "built-in", "Retrieval"),
        ("NFCorpus", "mteb", "Retrieval"),
    ]
    assert found[0].make().metadata.name == "STS12"
    assert found[0].data_hash() == ""


def test_superseded_tasks_are_found_too():
    assert names(find_tasks(["Banking77Classification"])) == ["Banking77Classification"]


def test_nothing_asked_for_means_the_built_in_tasks():
    found = find_tasks()
    assert {source.origin for source in found} == {"built-in"}
    assert {"DocsNumpy", "DocsPackageClassification", "DocsModuleClustering"} <= set(names(found))


def test_a_type_leaves_only_its_tasks_in_whatever_case_it_is_written():
    asked = ["STS12", "NFCorpus", "Banking77Classification"]
    assert names(find_tasks(asked, types=["sts", "RETRIEVAL"])) == ["STS12", "NFCorpus"]
    assert names(find_tasks(types=["clustering"])) == ["DocsModuleClustering"]


def test_a_type_that_no_task_has_is_answered_with_those_they_have():
    with pytest.raises(TaskError, match=r"None of the 2 tasks is of type 'sst'.*Retrieval, STS\."):
        find_tasks(["STS12", "NFCorpus"], types=["STS", "sst"])


def test_an_unknown_name_is_answered_with_near_ones():
    with pytest.raises(TaskError, match=r"no task 'NFCorpsu'\. Did you mean 'NFCorpus'.*tasks`"):
        find_tasks(["NFCorpsu"])


def test_an_unknown_name_is_answered_with_tasks_of_the_data_folder_too(tmp_path: Path):
    write_beir(tmp_path / "windmills")
    with pytest.raises(TaskError, match="Did you mean 'windmills'"):
        find_tasks(["windmill"], data=[tmp_path])


def test_a_benchmark_gives_its_tasks():
    found = find_tasks(benchmark="MTEB(eng, v2)")
    assert names(found) == [
        task.metadata.name for task in mteb.get_benchmark("MTEB(eng, v2)").tasks
    ]
    assert len(found) == 41


def test_an_unknown_benchmark_is_answered_with_near_ones():
    with pytest.raises(TaskError, match=r"no benchmark 'MTEB\(eng,v2\)'.*MTEB\(eng, v2\)"):
        find_tasks(benchmark="MTEB(eng,v2)")


def test_every_known_task_has_a_name_of_its_own():
    known = known_tasks()
    assert len(set(names(known))) == len(known) > 1000
    assert all(source.task_type for source in known)


# Data folders


def test_a_folder_of_folders_gives_every_data_set_in_it(tmp_path: Path):
    write_beir(tmp_path / "beir" / "mills")
    write_folder(tmp_path / "mteb" / "sts12-sts", {"default": {"test": STS_ROWS}})
    write_folder(tmp_path / "mine" / "ovens", {"default": {"train": LABELLED, "test": LABELLED}})
    (tmp_path / "notes.txt").write_text("no data")
    found = find_tasks(data=[tmp_path])
    assert [(s.name, s.origin, s.task_type) for s in found] == [
        ("mills", str(tmp_path / "beir" / "mills"), "Retrieval"),
        ("ovens", str(tmp_path / "mine" / "ovens"), ""),
        ("STS12", str(tmp_path / "mteb" / "sts12-sts"), "STS"),
    ]
    assert names(find_tasks(data=[tmp_path], types=["classification"])) == ["ovens"]
    assert all(source.make().metadata.name == source.name for source in found)


def test_a_folder_may_be_a_data_set_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_beir(tmp_path / "mills")
    assert names(folder_tasks(folder)) == ["mills"]
    monkeypatch.chdir(folder)
    assert names(folder_tasks(Path())) == ["mills"]


def test_a_readme_for_people_beside_data_does_not_hide_a_beir_folder(tmp_path: Path):
    (write_beir(tmp_path / "mills") / "README.md").write_text("# About mills\n")
    assert folder_tasks(tmp_path / "mills")[0].make().metadata.type == "Retrieval"


def test_one_data_set_may_serve_several_official_tasks(tmp_path: Path):
    folder = write_folder(
        tmp_path / "mteb" / "banking77", {"default": {"train": LABELLED, "test": LABELLED}}
    )
    found = folder_tasks(folder)
    assert names(found) == ["Banking77Classification", "Banking77Classification.v2"]
    assert [source.make().metadata.name for source in found] == names(found)


def test_an_official_task_is_read_from_the_data_folder_that_has_it(tmp_path: Path):
    write_folder(tmp_path / "mteb" / "nfcorpus", SEARCH)
    named = find_tasks(["NFCorpus"], data=[tmp_path])[0]
    assert named.origin == str(tmp_path / "mteb" / "nfcorpus")
    task = named.make()
    task.load_data()
    assert len(task.dataset["default"]["test"]["corpus"]) == 3
    in_benchmark = {s.name: s for s in find_tasks(benchmark="MTEB(eng, v1)", data=[tmp_path])}
    assert in_benchmark["NFCorpus"].origin == str(tmp_path / "mteb" / "nfcorpus")
    assert in_benchmark["SciFact"].origin == "mteb"


def test_a_benchmark_asks_for_no_more_of_a_data_folder_than_of_the_hub(tmp_path: Path):
    splits = {"train": LABELLED, "validation": LABELLED, "test": LABELLED}
    folder = tmp_path / "mteb" / "amazon_counterfactual"
    write_folder(folder, {"en": splits, "de": splits})
    name = "AmazonCounterfactualClassification"
    alone = find_tasks([name], data=[tmp_path])[0].make()
    assert (alone.hf_subsets, set(alone.eval_splits)) == (["en", "de"], {"validation", "test"})
    in_benchmark = find_tasks(benchmark="MTEB(eng, v2)", data=[tmp_path])
    (task,) = [source.make() for source in in_benchmark if source.name == name]
    assert (task.hf_subsets, list(task.eval_splits)) == (["en"], ["test"])
    (folder / "README.md").unlink()
    write_folder(folder, {"de": splits})
    (source,) = [s for s in find_tasks(benchmark="MTEB(eng, v2)", data=[folder]) if s.name == name]
    with pytest.raises(DataError, match=r"holds de of Amazon.*, and the benchmark is en \(test\)"):
        source.make()


def test_a_task_named_twice_is_one_and_a_benchmark_beside_names_is_refused():
    assert names(find_tasks(["STS12", "DocsNumpy", "STS12"])) == ["STS12", "DocsNumpy"]
    with pytest.raises(TaskError, match=r"Both tasks \(STS12\) and the benchmark MTEB"):
        find_tasks(["STS12"], benchmark="MTEB(eng, v2)")


def test_the_hash_of_official_data_follows_its_files(tmp_path: Path):
    folder = write_folder(tmp_path / "mteb" / "sts12-sts", {"default": {"test": STS_ROWS}})
    source = folder_tasks(folder)[0]
    before = source.data_hash()
    assert before.startswith("sha256-") and source.data_hash() == before
    rows = [*STS_ROWS, STS_ROWS[0]]
    (folder / "default" / "test.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert source.data_hash() != before


def test_a_folder_without_data_says_what_a_data_set_looks_like(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no data set: neither a BEIR folder.*README\.md"):
        find_tasks(data=[tmp_path])
    with pytest.raises(DataError, match=r"There is no data folder .*nowhere"):
        find_tasks(data=[tmp_path / "nowhere"])


def test_data_sets_are_looked_for_three_levels_deep(tmp_path: Path):
    write_beir(tmp_path / "a" / "b" / "third")
    write_beir(tmp_path / "a" / "b" / "c" / "fourth")
    assert names(folder_tasks(tmp_path)) == ["third"]


# Fresh tasks


def cluster_score(task: Any) -> float:
    model = MtebEncoder(TinyEncoder(context_size=0))
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    return float(result.task_results[0].get_score())


def test_what_one_task_object_went_through_does_not_touch_the_next(tmp_path: Path):
    # Clustering draws its samples from a random state that moves on with every evaluation.
    words = ["oven", "flour", "boat", "sail", "court", "judge", "rain", "sun"]
    drawn = np.random.default_rng(0).integers(0, len(words), (500, 4))
    rows = [
        {"sentences": " ".join(words[i] for i in row), "labels": words[row[0]]} for row in drawn
    ]
    folder = write_folder(tmp_path / "mixed", {"default": {"test": rows}})
    source = folder_tasks(folder)[0]
    used = source.make()
    with threadpool_limits(1):  # many tiny k-means: threads only wait for each other
        first, second = cluster_score(used), cluster_score(used)
        afresh = cluster_score(source.make())
    assert first != second  # a used object gives another score: the trap is there
    assert afresh == first


@pytest.mark.parametrize("name", ["TwentyNewsgroupsClustering.v2", "STS12", "DocsModuleClustering"])
def test_a_source_makes_an_object_of_its_own_each_time(name: str, monkeypatch: Any):
    if name.startswith("Docs"):
        from cde_eval.tasks import builtin
        from tests.cde_eval.tasks.test_builtin import DOCUMENTATION

        monkeypatch.setattr(builtin, "load_documentation", lambda: DOCUMENTATION)
    source = find_tasks([name])[0]
    one, other = source.make(), source.make()
    assert one is not other and one.np_rng is not other.np_rng
    state = other.rng_state.getstate()
    one.rng_state.random()
    one.np_rng.random()
    one.data_loaded = True
    assert other.rng_state.getstate() == state
    assert source.make().rng_state.getstate() == state
    assert not other.data_loaded
