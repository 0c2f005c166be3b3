import math

import numpy as np
import pytest

from cde_core.errors import ContextError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders.bm25 import Bm25
from cde_eval.probes.position.moved import MovedPassages, measured, probe_moved
from cde_eval.probes.position.situations import Situation, situations
from cde_eval.ranking import Ranking

from .counting_encoder import NOTHING_READ, CountingEncoder, numbered_passages

DATA = numbered_passages()
PLAN = MovedPassages(data=DATA)
WORDS = 800
CORPUS = Situation(ContextPolicy("corpus", size=2))


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


def _found(encoder, tmp_path, todo=(NOTHING_READ,)):
    return probe_moved("m", encoder, PLAN, list(todo), tmp_path)


def test_an_encoder_that_reads_fifty_words_has_exactly_that_bias(tmp_path):
    frame = _found(CountingEncoder(WORDS, first=50), tmp_path)
    by_place = frame.pivot(index="query", columns="place", values="mrr_at_100")
    # Place i begins at word 20·(i − 1): the third at word 40 is read in part, the fourth not at
    # all. Then nothing tells the documents apart, and equal scores are in the order of rows.
    unread = [1 / (1 + row) for row in range(4)]
    for place in (1, 2, 3):
        assert by_place[place].tolist() == [1, 1, 1, 1]
    for place in (0, 4, 5, 6, 7, 8, 9, 10):  # unmoved it stands at word 100
        assert by_place[place].tolist() == pytest.approx(unread, abs=1e-5)


def test_a_bag_of_words_has_no_bias_at_all(tmp_path):
    frame = _found(CountingEncoder(WORDS), tmp_path)
    measures = frame[["ndcg_at_10", "mrr_at_100", "recall_at_100"]]
    assert (measures == 1).all().all()
    assert frame["place"].nunique() == 11


def test_bm25_has_none_either(tmp_path):
    encoder = Bm25()
    frame = _found(encoder, tmp_path, situations(encoder, [ContextPolicy("corpus")]))
    for _, of_query in frame.groupby("query"):
        assert of_query["ndcg_at_10"].nunique() == 1


def test_places_are_where_the_passage_stands(tmp_path):
    frame = _found(CountingEncoder(WORDS), tmp_path)
    starts = frame[frame["query"] == "q1"].sort_values("place")["start"].tolist()
    assert starts == [600, *(120 * number for number in range(10))]  # six characters a word


def test_only_documents_of_the_queries_are_embedded_again(tmp_path):
    encoder = CountingEncoder(WORDS)
    _found(encoder, tmp_path)
    # 4 documents and 4 queries once, then 4 documents at each of 11 places.
    assert len(encoder.encoded) == 4 + 4 + 11 * 4


def test_a_killed_run_continues_and_ends_with_the_same_file(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _found(CountingEncoder(WORDS, calls_left=6), tmp_path / "killed")  # corpus, queries, 4
    again = CountingEncoder(WORDS)
    _found(again, tmp_path / "killed")
    assert len(again.encoded) == 4 + 4 + 7 * 4
    _found(CountingEncoder(WORDS), tmp_path / "whole")
    one, other = (
        next((tmp_path / name).rglob("*.csv")).read_bytes() for name in ("killed", "whole")
    )
    assert one == other


def test_a_finished_run_embeds_nothing(tmp_path):
    _found(CountingEncoder(WORDS), tmp_path)
    again = CountingEncoder(WORDS, calls_left=0)
    assert len(_found(again, tmp_path)) == 11 * 4


def test_contexts_are_run_one_by_one_and_read_from_the_unmoved_corpus(tmp_path):
    encoder = CountingEncoder(WORDS, context_size=2)
    todo = list(situations(encoder, [ContextPolicy("corpus"), ContextPolicy("none")], draws=2))
    assert [(one.policy.kind, one.draw) for one in todo] == [
        ("corpus", 0),
        ("corpus", 1),
        ("none", 0),
    ]
    frame = _found(encoder, tmp_path, todo)
    assert frame.groupby(["context", "draw"]).size().tolist() == [44, 44, 44]


def test_an_encoder_without_context_runs_once_whatever_is_asked():
    policies = [ContextPolicy("corpus"), ContextPolicy("random"), ContextPolicy("none")]
    assert list(situations(CountingEncoder(1), policies, draws=3)) == [NOTHING_READ]


def test_a_context_that_passages_do_not_have_is_said(tmp_path):
    encoder = CountingEncoder(WORDS, context_size=2)
    with pytest.raises(ContextError, match="give corpus, random, none"):
        _found(encoder, tmp_path, [Situation(ContextPolicy("task:NFCorpus"))])


def test_measures_agree_with_ir_measures():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(40)[:20] for _ in range(4)])
    scores = np.sort(rng.random((4, 20), dtype=np.float32))[:, ::-1]
    found = measured(DATA, Ranking(rows=rows, scores=scores))
    qrels = [ir_measures.Qrel(f"q{n}", str(n), 1) for n in range(4)]
    run = [
        ir_measures.ScoredDoc(f"q{n}", str(row), float(score))
        for n in range(4)
        for row, score in zip(rows[n], scores[n], strict=True)
    ]
    asked = {
        "ndcg_at_10": ir_measures.nDCG @ 10,
        "mrr_at_100": ir_measures.RR @ 100,
        "recall_at_100": ir_measures.R @ 100,
    }
    for name, measure in asked.items():
        theirs = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
        ours = [one[name] for one in found]
        assert ours == pytest.approx([theirs[f"q{n}"] for n in range(4)], abs=1e-5)


def test_a_third_place_scores_what_it_must():
    ranking = Ranking(rows=np.array([[3, 2, 0]] * 4), scores=np.zeros((4, 3), np.float32))
    first, missing = measured(DATA, ranking)[:2]
    assert first["ndcg_at_10"] == pytest.approx(1 / math.log2(4))
    assert first["mrr_at_100"] == pytest.approx(1 / 3, abs=1e-5)
    assert first["recall_at_100"] == 1
    assert set(missing.values()) == {0}
