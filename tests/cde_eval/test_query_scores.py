"""Scores of each query: mteb's own, on their way to the mean."""

import pytest

from cde_eval.plan import Evaluation
from cde_eval.results import query_scores_path, read_query_scores, records_by_path
from tests.cde_eval.test_run import CORPUS, SOURCES, records_of
from tests.cde_eval.tiny_encoder import TinyEncoder


def test_their_mean_is_the_score_and_tasks_without_queries_have_none(tmp_path, use):
    use(tiny=TinyEncoder())
    records_of(Evaluation(models=("tiny",), tasks=SOURCES, policies=CORPUS), tmp_path)
    by_path = records_by_path(tmp_path)
    with_queries = {r.task: p for p, r in by_path.items() if query_scores_path(p).exists()}
    assert set(with_queries) == {"Tiny"}
    path = with_queries["Tiny"]
    table = read_query_scores(path)
    assert table is not None and list(table["query"]) == ["q0", "q1"]
    (score,) = by_path[path].scores
    for measure in ("ndcg_at_10", "map_at_100", "recall_at_10"):
        assert table[measure].mean() == pytest.approx(score.measures[measure], abs=1e-5)
    assert read_query_scores(next(p for p in by_path if p != path)) is None


def test_ids_that_look_like_numbers_or_like_nothing_stay_texts(tmp_path):
    record = tmp_path / "Task.json"
    query_scores_path(record).write_text(
        "split,subset,query,ndcg_at_10\ntest,default,007,0.5\ntest,default,NA,0.25\n"
    )
    table = read_query_scores(record)
    assert table is not None
    assert list(table["query"]) == ["007", "NA"] and table["ndcg_at_10"].mean() == 0.375
