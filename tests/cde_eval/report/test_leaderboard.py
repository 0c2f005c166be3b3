from pathlib import Path

import pytest

from cde_eval.report.exhibits import Results
from cde_eval.report.leaderboard import (
    not_comparable,
    places,
    shown,
    standings,
    write_leaderboard,
)
from cde_eval.report.page import PUBLISHED
from cde_eval.results import RunRecord
from tests.cde_eval.report.saved import save
from tests.cde_eval.tiny_records import record

MODELS = """\
# made by hand
model,parameters,NFCorpus,SciFact,STS12
big,300000000,0.5,0.9,0.8
middle,100000000,0.4,0.8,0.7
small,20000000,0.3,0.4,0.6
"""
TASKS = """\
# made by hand
task,type,measure,split,subset,data_revision
NFCorpus,Retrieval,ndcg_at_10,test,default,sha256-0
SciFact,Retrieval,ndcg_at_10,test,default,another
STS12,STS,cosine_spearman,test,default,sha256-0
"""


def results(tmp_path: Path, *records: RunRecord) -> Results:
    published = tmp_path / "published"
    published.mkdir(exist_ok=True, parents=True)
    (published / "mteb_eng_v1.csv").write_text(MODELS)
    (published / "mteb_eng_v1_tasks.csv").write_text(TASKS)
    return Results(save(records, tmp_path / "results"), published)


def test_a_run_stands_among_means_of_the_same_tasks(tmp_path: Path):
    # On NFCorpus alone 0.45 is second of four; SciFact, which was not run, does not count.
    (one,) = standings(results(tmp_path, record("NFCorpus", 0.45)))
    assert one.scores["model"].tolist() == ["big", "tiny · corpus", "middle", "small"]
    assert (one.name, one.tasks, one.of) == ("Retrieval", ("NFCorpus",), 2)
    assert one.place(1) == 2


def test_several_tasks_are_averaged(tmp_path: Path):
    # Ours: (0.3 + 0.9) / 2 = 0.6, as middle has with (0.4 + 0.8) / 2; equal is not better.
    both = [record("NFCorpus", 0.3), record("SciFact", 0.9)]
    (one,) = standings(results(tmp_path, *both))
    assert one.scores["mean"].tolist() == pytest.approx([0.7, 0.6, 0.6, 0.35])
    assert one.place(one.ours[0]) == 2


def test_a_run_without_a_task_that_another_has_is_left_out(tmp_path: Path):
    half = record("NFCorpus", 0.9, policy="random")
    (one,) = standings(results(tmp_path, record("NFCorpus"), record("SciFact"), half))
    assert [one.scores["model"][row] for row in one.ours] == ["tiny · corpus"]


def test_several_types_have_a_table_each_and_one_for_all(tmp_path: Path):
    found = standings(
        results(tmp_path, record("NFCorpus", 0.45), record("STS12", 0.65, task_type="STS"))
    )
    assert [one.name for one in found] == ["All types", "Retrieval", "STS"]
    table = places(results(tmp_path))
    assert table is not None and table["place"].tolist() == ["2 of 4", "2 of 4", "3 of 4"]
    assert table["tasks"].tolist() == ["2 of 3", "1 of 2", "1 of 1"]


def test_ours_have_no_number_among_the_published(tmp_path: Path):
    (one,) = standings(results(tmp_path, record("NFCorpus", 0.45)))
    table = shown(one)
    assert table["place"].tolist() == ["1", "", "2", "3"]
    assert table["model"][1] == "tiny · corpus (ours: would be 2)"
    assert table["million parameters"].tolist() == ["300", "", "100", "20"]
    assert table["NFCorpus"].tolist() == ["50.00", "45.00", "40.00", "30.00"]


def test_the_page_says_what_is_not_comparable(tmp_path: Path):
    of = results(tmp_path, record("NFCorpus"), record("SciFact"))
    page = write_leaderboard(of, tmp_path / "out")
    assert page is not None
    text = page.read_text()
    assert "has read unlabelled documents" in text and "no means of the benchmark" in text
    (changed,) = (line for line in not_comparable(of) if "revision" in line)
    assert "SciFact" in changed and "NFCorpus" not in changed


def test_without_runs_of_the_benchmark_the_page_gives_the_command(tmp_path: Path):
    of = results(tmp_path, record("DocsNumpy"))
    assert places(of) is None
    page = write_leaderboard(of, tmp_path / "out")
    assert page is not None and "cde-eval mteb <span>--model</span> MODEL" in page.read_text()


def test_without_published_scores_there_is_no_page(tmp_path: Path):
    assert write_leaderboard(Results(tmp_path, tmp_path), tmp_path / "out") is None
    assert not (tmp_path / "out").exists()


def test_the_published_file_is_whole():
    of = Results(PUBLISHED, PUBLISHED)
    models, tasks = of.published("mteb_eng_v1"), of.published("mteb_eng_v1_tasks")
    assert list(models.columns) == ["model", "parameters", *tasks["task"]] and len(tasks) == 56
    assert models["model"].is_unique and models["parameters"].max() <= 350e6
    scores = models[tasks["task"]]
    assert scores.notna().all(axis=None) and scores.min(axis=None) >= -0.1
    assert scores.max(axis=None) <= 1
