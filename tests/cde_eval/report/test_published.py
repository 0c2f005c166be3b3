from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cde_eval.report.benchmark import FORUMS, benchmark_tasks, our_scores
from cde_eval.report.exhibits import Made, Results
from cde_eval.report.page import PUBLISHED
from cde_eval.report.published import EXHIBITS
from cde_eval.results import RunRecord
from tests.cde_eval.report.saved import save
from tests.cde_eval.tiny_records import record

BY_NAME = {exhibit.name: exhibit for exhibit in EXHIBITS}


def results(tmp_path: Path, *records: RunRecord) -> Results:
    return Results(save(records, tmp_path / "results"), PUBLISHED)


def rows(made: Made | None) -> list[dict[Any, str]]:
    assert isinstance(made, pd.DataFrame)
    return made.to_dict("records")


# As published


@pytest.mark.parametrize("name", ["table_1", "table_2", "table_7"])
def test_a_table_without_runs_shows_what_was_published(name: str, tmp_path: Path):
    empty = results(tmp_path)
    assert BY_NAME[name].make(empty) is None
    assert len(rows(BY_NAME[name].published(empty))) >= 4


def test_numbers_stand_as_they_were_printed(tmp_path: Path):
    empty = results(tmp_path)
    last = rows(BY_NAME["table_1"].published(empty))[3]
    assert list(last.values()) == ["paper", "✓", "✓", "", "512", "512", "0.68", "80.9", "63.1"]
    contextual = rows(BY_NAME["table_2"].published(empty))[6]
    assert list(contextual.values()) == [
        *("cde-small-v1", "corpus", "81.7", "48.3", "84.7", "56.7", "53.3", "81.6", "31.2"),
        *("65.00", "paper"),
    ]


def test_the_means_of_table_7_are_those_of_its_columns():
    table = Results(PUBLISHED, PUBLISHED).published("cde_table_7")
    scores = table.drop(columns=["training", "method", "mean"])
    assert scores.shape == (4, 15)
    assert (scores.mean(axis=1) - table["mean"]).abs().max() < 0.051


def test_the_leaderboard_repeats_the_papers_row_of_its_own_model(tmp_path: Path):
    # Table 2 was printed from the scores that the leaderboard has, so their means must agree.
    all_results = results(tmp_path)
    tasks = benchmark_tasks(all_results)
    scores = all_results.published("mteb_eng_v1").set_index("model").loc["jxm/cde-small-v1"]
    printed = rows(BY_NAME["table_2"].published(all_results))[6]
    assert f"{100 * scores[list(tasks.index)].astype(float).mean():.2f}" == printed["mean"]
    for kind, names in tasks.groupby("type").groups.items():
        assert f"{100 * scores[list(names)].astype(float).mean():.1f}" == printed[str(kind)]


# Ours beneath


def cell(tmp_path: Path, name: str, kind: str, clusters: int, score: float, **more: int) -> None:
    folder = tmp_path / "results" / "sweeps" / "mine" / name
    folder.mkdir(parents=True)
    values = {"model.kind": kind, "clusters.size": clusters, "filter.surrogate": "", **more}
    ended = {"loss": 0.654, "accuracy": 0.75, "steps": 60, "scores": {"mean/corpus": score}}
    (folder / "result.json").write_text(json.dumps({"cell": values, **ended}))


def test_the_cells_of_a_sweep_are_rows_of_table_1(tmp_path: Path):
    cell(tmp_path, "a", "biencoder", 0, 0.5)
    cell(tmp_path, "b", "contextual", 64, 0.612)
    made = rows(BY_NAME["table_1"].make(results(tmp_path)))
    assert len(made) == 6
    assert list(made[4].values()) == [
        *("ours: mine", "", "", "filter surrogate: none", "", "", "0.65", "75.0", "50.0")
    ]
    assert list(made[5].values())[1:3] == ["✓", "✓"] and made[5]["nDCG@10"] == "61.2"


def test_runs_that_differ_in_their_seed_alone_are_one_row(tmp_path: Path):
    for seed, score in enumerate((0.5, 0.512, 0.503)):
        cell(tmp_path, f"a{seed}", "biencoder", 0, score, seed=seed)
    cell(tmp_path, "b", "contextual", 0, 0.6, seed=0)
    made = rows(BY_NAME["table_1"].make(results(tmp_path)))[4:]
    assert [row["nDCG@10"] for row in made] == ["50.5 ± 0.6", "60.0"]
    assert made[0]["otherwise"] == "filter surrogate: none, mean ± deviation of 3 seeds"


def test_a_mean_of_ours_needs_every_task_of_its_type(tmp_path: Path):
    summary = record("SummEval", 0.31, task_type="Summarization", model="minilm", policy="none")
    one_of_ten = record("STS12", 0.7, task_type="STS", model="minilm", policy="none")
    made = rows(BY_NAME["table_2"].make(results(tmp_path, summary, one_of_ten)))
    ours = made[-1]
    assert (ours["model"], ours["from"]) == ("minilm", "ours")
    assert ours["Summarization"] == "31.0" and ours["STS"] == "" and ours["mean"] == ""


def test_incomplete_types_alone_make_no_row(tmp_path: Path):
    assert BY_NAME["table_2"].make(results(tmp_path, record("STS12", 0.7))) is None


def test_a_search_stands_beneath_the_papers_of_its_data_set(tmp_path: Path):
    both = [record("SciFact", 0.7), record("SciFact", 0.6, policy="random")]
    made = rows(BY_NAME["table_7"].make(results(tmp_path, *both)))
    assert [row["run"] for row in made[4:]] == ["tiny · corpus", "tiny · random"]
    assert [row["SciFact"] for row in made[4:]] == ["70.0", "60.0"]
    assert made[4]["mean"] == "" and made[4]["NFCorpus"] == ""


def test_runs_without_a_search_leave_table_7_as_published(tmp_path: Path):
    assert BY_NAME["table_7"].make(results(tmp_path, record("STS12", 0.7))) is None


# Scores as the leaderboard counts them


def test_only_the_split_and_subset_of_the_leaderboard_count(tmp_path: Path):
    several = record("STS17", scores={("test", "en-en"): 0.8, ("test", "ko-ko"): 0.1})
    other = record("MSMARCO", scores={("test", "default"): 0.9, ("dev", "default"): 0.4})
    scores = our_scores(results(tmp_path, several, other))
    assert scores.iloc[0].to_dict() == {"MSMARCO": 0.4, "STS17": 0.8}


def test_draws_are_averaged_and_candidates_left_out(tmp_path: Path):
    draws = [record("SciFact", score, draw=n) for n, score in enumerate((0.5, 0.7))]
    listed = {"retriever": "bm25", "depth": 10, "titles": True, "recall": 1.0}
    rescored = record("NFCorpus", 0.9, candidates=listed)
    scores = our_scores(results(tmp_path, *draws, rescored))
    assert scores.to_dict("records") == [{"SciFact": pytest.approx(0.6)}]


def test_cqadupstack_is_the_mean_of_its_twelve_forums_or_nothing(tmp_path: Path):
    forums = [record(f"CQADupstack{forum}Retrieval", n / 12) for n, forum in enumerate(FORUMS)]
    whole = our_scores(results(tmp_path / "whole", *forums))
    assert whole.to_dict("records") == [{"CQADupstackRetrieval": pytest.approx(66 / 144)}]
    assert our_scores(results(tmp_path / "part", *forums[1:])).empty


def test_tasks_of_no_leaderboard_have_no_place_there(tmp_path: Path):
    assert our_scores(results(tmp_path, record("DocsNumpy"))).empty
