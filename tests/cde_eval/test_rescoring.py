"""Candidates of a first retriever, and models that rank nothing else."""

import dataclasses
import json
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import R, nDCG
from mteb.abstasks import AbsTask

from cde_core.errors import ConfigError, DataError
from cde_core.text import Purpose
from cde_eval import rescoring
from cde_eval.candidates import find_candidates
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders.bm25 import Bm25
from cde_eval.plan import Evaluation, Failure
from cde_eval.report.rescored import rescored_table
from cde_eval.rescoring import NINE, RULES, SEARCH_TYPES, rescore, rescored
from cde_eval.results import RunRecord, read_query_scores, read_records, records_by_path
from cde_eval.run import evaluate
from cde_eval.tasks.catalogue import TaskSource, folder_tasks
from cde_eval.tasks.search_data import search_tasks
from cde_eval.trec_run import read_run
from tests.cde_eval.test_mteb_encoder import sts_task
from tests.cde_eval.tiny_encoder import TinyEncoder

WORDS = "apple pear plum train rail tram tax money bank cat dog bird".split()
QUERIES = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BEIR folder in which every query is a document too, and one is its own right answer."""
    rng = np.random.default_rng(0)

    def words(count: int) -> str:
        return " ".join(rng.choice(WORDS, count))

    corpus = [{"_id": f"d{i}", "title": words(2), "text": words(6)} for i in range(60)]
    queries = [{"_id": f"q{i}", "text": words(2)} for i in range(QUERIES)]
    qrels = "query-id\tcorpus-id\tscore\nq0\tq0\t1\n"
    for query in queries:
        first = query["text"].split()[0]
        alike = [row["_id"] for row in corpus if first in row["text"]][:4]
        qrels += "".join(f"{query['_id']}\t{one}\t{1 + len(one) % 2}\n" for one in alike)
    corpus += [{"_id": query["_id"], "title": "", "text": query["text"]} for query in queries]
    folder = tmp_path / "things"
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


@pytest.fixture
def source(folder: Path) -> TaskSource:
    return folder_tasks(folder)[0]


@pytest.fixture
def retrievers(use, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Models and retrievers by name."""
    plain = TinyEncoder(revision="plain", context_size=0)
    models = {"tiny": TinyEncoder(), "bm25": Bm25(), "plain": plain}
    use(**models)
    monkeypatch.setattr(rescoring, "load_kept", lambda name, options: models[name])
    return models


def plan(source: TaskSource, *models: str, policy: str = "corpus") -> Evaluation:
    return Evaluation(models=models, tasks=(source,), policies=(ContextPolicy(policy),))


def run(one: Evaluation, output: Path, *, depth: int, rules: str = "mteb") -> list[RunRecord]:
    outcomes = list(rescore(one, "bm25", depth=depth, rules=RULES[rules], output=output))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    return [outcome for outcome in outcomes if isinstance(outcome, RunRecord)]


@pytest.mark.parametrize("model", ["tiny", "plain", "bm25"])
def test_candidates_as_deep_as_the_corpus_give_the_score_of_the_full_search(
    source, retrievers, tmp_path, model
):
    (full,) = evaluate(plan(source, model), tmp_path / "full")
    (top,) = run(plan(source, model), tmp_path / "top", depth=1000)
    assert top.scores[0].main == pytest.approx(full.scores[0].main, abs=1e-5)
    assert 0.01 < top.scores[0].main < 1
    assert top.candidates["recall"] == 1


@pytest.mark.parametrize("already_loaded", [False, True])
def test_only_the_union_of_the_candidates_is_embedded(source, retrievers, tmp_path, already_loaded):
    def loaded() -> AbsTask:
        task = source.make()
        task.load_data()
        return task

    made = dataclasses.replace(source, make=loaded) if already_loaded else source
    run(plan(made, "plain"), tmp_path, depth=2)
    lists = read_run(next(tmp_path.rglob("*.run")))
    union = {document for documents in lists.top(2).values() for document in documents}
    sizes = [len(call) for call in retrievers["plain"].encoded]
    assert sum(sizes) <= QUERIES + len(union) < 60


def test_scores_and_recall_are_those_of_ir_measures_on_the_same_run(
    source, folder, retrievers, tmp_path
):
    (record,) = run(plan(source, "bm25"), tmp_path, depth=5)
    path = next(tmp_path.rglob("*.run"))
    lines = path.read_text().splitlines()[1:]  # ir_measures reads the header's line too
    rows = [line.split() for line in lines]
    judged = [line.split("\t") for line in (folder / "qrels" / "test.tsv").read_text().splitlines()]
    qrels = [ir_measures.Qrel(q, d, int(grade)) for q, d, grade in judged[1:]]
    ranked = [ir_measures.ScoredDoc(row[0], row[2], float(row[4])) for row in rows]
    expected = ir_measures.calc_aggregate([nDCG @ 10, R @ 5], qrels, ranked)
    assert record.scores[0].main == pytest.approx(expected[nDCG @ 10], abs=1e-4)
    assert record.candidates["recall"] == pytest.approx(expected[R @ 5], abs=1e-6)


def test_no_rescoring_exceeds_the_ceiling_and_deeper_lists_only_raise_it(
    source, retrievers, tmp_path
):
    ceilings = []
    for depth in (1, 5, 20, 72):
        for record in run(plan(source, "plain", "tiny"), tmp_path / str(depth), depth=depth):
            found = record.scores[0].measures["recall_at_100"]
            assert found <= record.candidates["recall"] + 1e-5
            ceilings.append(record.candidates["recall"])
    assert ceilings == sorted(ceilings) and ceilings[-1] == 1


def test_the_paper_leaves_out_titles_and_the_querys_own_id(source, retrievers, tmp_path):
    run(plan(source, "plain"), tmp_path, depth=8, rules="paper")
    lists = read_run(next(tmp_path.rglob("*.run")))
    assert lists.header.excludes_own_id
    assert all(query not in documents for query, documents in lists.top(8).items())
    assert max(len(text.split()) for call in retrievers["plain"].encoded for text in call) == 6
    run(plan(source, "plain"), tmp_path / "mteb", depth=8)
    lists = read_run(next((tmp_path / "mteb").rglob("*.run")))
    assert any(query in documents for query, documents in lists.top(8).items())
    assert max(len(text.split()) for call in retrievers["plain"].encoded for text in call) == 8


def test_deeper_lists_serve_a_shallower_depth_and_other_data_does_not(
    source, folder, retrievers, tmp_path
):
    deep = find_candidates(source, Bm25(), depth=20, drop_own_ids=False, output=tmp_path)
    shallow = find_candidates(source, Bm25(), depth=5, drop_own_ids=False, output=tmp_path)
    assert shallow.files == deep.files and shallow.recall < deep.recall
    alone = find_candidates(source, Bm25(), depth=5, drop_own_ids=False, output=tmp_path / "own")
    place = ("default", "test")
    assert alone.lists[place].top(5) == shallow.lists[place].top(5)
    assert alone.recall == pytest.approx(shallow.recall)
    corpus = folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("cat", "cow"))
    changed = folder_tasks(folder)[0]
    fresh = find_candidates(changed, Bm25(), depth=5, drop_own_ids=False, output=tmp_path)
    assert fresh.files != shallow.files


def test_rescored_results_stand_beside_those_of_the_full_search(source, retrievers, tmp_path):
    list(evaluate(plan(source, "plain"), tmp_path))
    for rules, depth in (("mteb", 5), ("mteb", 10), ("paper", 10)):
        run(plan(source, "plain"), tmp_path, depth=depth, rules=rules)
    assert len(read_records(tmp_path)) == 4
    assert len(list((tmp_path / "mteb").rglob("things.json"))) == 4
    for path in records_by_path(tmp_path):
        table = read_query_scores(path)
        assert table is not None and len(table) == QUERIES


def test_a_finished_run_is_read_and_not_run_again(source, retrievers, tmp_path):
    first = run(plan(source, "tiny"), tmp_path, depth=5)
    calls = len(retrievers["tiny"].encoded)
    assert run(plan(source, "tiny"), tmp_path, depth=5) == first
    assert len(retrievers["tiny"].encoded) == calls


# Each query in the context of its own candidates


def test_each_query_reads_the_best_of_its_own_list(source, retrievers, tmp_path):
    (record,) = run(plan(source, "tiny", policy="candidates"), tmp_path, depth=10)
    tiny = retrievers["tiny"]
    lists = read_run(next(tmp_path.rglob("*.run")))
    task = source.make()
    task.load_data()
    corpus = task.dataset["default"]["test"]["corpus"]
    texts = {row["id"]: f"{row['title']} {row['text']}".strip() for row in corpus}
    wanted = [tuple(texts[d] for d in documents[:8]) for documents in lists.top(10).values()]
    assert tiny.read == wanted and len(wanted) == QUERIES
    assert record.policy == "candidates" and record.context_size == 8 and record.draws == 1
    assert record.contexts["test/default"]["source"].startswith("candidates")
    # The same by hand, for every query alone.
    judged = task.dataset["default"]["test"]["relevant_docs"]
    scores = []
    for query in task.dataset["default"]["test"]["queries"]:
        documents = lists.top(10)[query["id"]]
        one = TinyEncoder()
        as_document = Purpose("Retrieval", "document", "things")
        context = one.read_context([texts[d] for d in documents[:8]], purpose=as_document)
        right = one.encode([texts[d] for d in documents], purpose=as_document, context=context)
        left = one.encode([query["text"]], purpose=Purpose("Retrieval", "query"), context=context)
        cosine = (right @ left[0]) / np.linalg.norm(right, axis=1)
        gains = [judged[query["id"]].get(documents[row], 0) for row in np.argsort(-cosine)]
        best = sorted(judged[query["id"]].values(), reverse=True)[:10]
        discount = 1 / np.log2(np.arange(2, 12))
        scores.append((gains @ discount) / (np.array(best) @ discount[: len(best)]))
    assert record.scores[0].main == pytest.approx(np.mean(scores), abs=1e-4)


def test_the_candidates_as_context_need_candidates(source, retrievers, tmp_path):
    (failure,) = evaluate(plan(source, "tiny", policy="candidates"), tmp_path)
    assert isinstance(failure, Failure) and "beir-small" in failure.reason


# What cannot be done is said


def test_what_is_no_search_is_said_and_the_others_go_on(source, retrievers, tmp_path):
    sts = TaskSource("TinySTS", "built-in", sts_task)
    both = Evaluation(models=("plain",), tasks=(sts, source), policies=(ContextPolicy("none"),))
    said, done = rescore(both, "bm25", depth=5, rules=RULES["mteb"], output=tmp_path)
    assert isinstance(said, Failure) and "no search of a corpus" in said.reason
    assert isinstance(done, RunRecord)


@pytest.mark.parametrize("depth", [0, -3])
def test_no_candidates_are_no_candidates(source, tmp_path, depth):
    with pytest.raises(ConfigError, match="at least one"):
        find_candidates(source, Bm25(), depth=depth, drop_own_ids=False, output=tmp_path)


def test_damaged_lists_are_refused(source, tmp_path):
    find_candidates(source, Bm25(), depth=5, drop_own_ids=False, output=tmp_path)
    path = next(tmp_path.rglob("*.run"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="delete it"):
        find_candidates(source, Bm25(), depth=5, drop_own_ids=False, output=tmp_path)


def test_candidates_that_the_corpus_does_not_have_are_refused(source, tmp_path):
    found = find_candidates(source, Bm25(), depth=5, drop_own_ids=False, output=tmp_path)
    lists = dict(found.lists["default", "test"].lists)
    lists["q0"] = [("nowhere", 1.0)]
    wrong = dataclasses.replace(found.lists["default", "test"], lists=lists)
    task = rescored(
        dataclasses.replace(found, lists={("default", "test"): wrong}), RULES["mteb"]
    ).make()
    with pytest.raises(DataError, match="nowhere"):
        task.load_data()


def test_the_nine_sets_of_the_paper_are_tasks_that_can_be_searched():
    found = search_tasks(otherwise=NINE, types=SEARCH_TYPES)
    assert [one.name for one in found] == list(NINE)


def test_the_table_has_the_mean_over_sets_and_the_ceiling(source, retrievers, tmp_path):
    records = run(plan(source, "plain", "bm25"), tmp_path, depth=5)
    table = rescored_table([*records, records[0].model_copy(update={"task": "other"})])
    assert list(table.index) == ["things", "other", "mean"]
    ceiling = f"{records[0].candidates['recall']:.4f}"
    assert list(table.iloc[:, 0]) == [ceiling] * 3
    assert table.loc["mean", "plain"] == table.loc["things", "plain"]
    assert table.loc["mean", "bm25 · corpus"] == ""  # it lacks a set


def test_lists_of_another_depth_have_a_ceiling_of_their_own(source, retrievers, tmp_path):
    records = [*run(plan(source, "plain"), tmp_path, depth=2)]
    records += run(plan(source, "plain"), tmp_path, depth=20)
    table = rescored_table(records)
    for record in records:
        column = table[f"candidates' Recall@{record.candidates['depth']}"]
        assert column["things"] == f"{record.candidates['recall']:.4f}"
    assert records[0].candidates["recall"] < records[1].candidates["recall"]


def test_judgements_without_a_relevant_document_have_no_recall(folder, retrievers, tmp_path):
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t0\n")
    (source,) = folder_tasks(folder)
    with pytest.raises(DataError, match=r"things .test. has no query with a relevant document"):
        find_candidates(source, Bm25(), depth=5, drop_own_ids=False, output=tmp_path)


# On real data


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nfcorpus", "scifact"])
def test_real_sets_rescored_as_deep_as_their_corpus_score_as_searched(name, shared_data, tmp_path):
    (real,) = folder_tasks(shared_data / "beir" / name)
    one = plan(real, "bm25")
    (full,) = evaluate(one, tmp_path)
    found = {
        depth: next(rescore(one, "bm25", depth=depth, rules=RULES["mteb"], output=tmp_path))
        for depth in (6000, 1024)
    }
    assert isinstance(full, RunRecord)
    for record in found.values():
        assert isinstance(record, RunRecord)
    deep, fast = (record.scores[0].main for record in found.values())  # type: ignore[union-attr]
    assert deep == pytest.approx(full.scores[0].main, abs=5e-5)
    missing = 1 - found[1024].candidates["recall"]  # type: ignore[union-attr]
    assert abs(fast - full.scores[0].main) <= missing
