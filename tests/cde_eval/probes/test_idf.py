import json
import math
from types import SimpleNamespace

import pandas as pd
import pytest

from cde_core.errors import CdeError, ConfigError
from cde_eval.commands.idf import idf as command
from cde_eval.commands.options import Loading
from cde_eval.probes import idf as module
from cde_eval.probes.idf import idf_distance, idf_table, measure_distances, reference_documents
from cde_eval.tasks.catalogue import TaskSource, find_tasks

NO_SEARCH = TaskSource(
    "Pairs", "here", lambda: SimpleNamespace(metadata=SimpleNamespace(revision="1")), "STS"
)
APPLES = ["apple", "apple pear"]


def beir_folder(folder, documents):
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(documents)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": documents[0]}) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td0\t1\n")
    return folder


def test_distances_agree_with_a_sum_done_by_hand():
    # log(1 + (N − n + ½) / (n + ½)), N = 2:
    #   apple  in 2 of 2: log(1 + 0.5 / 2.5) = log 1.2   there in 1: log(1 + 1.5 / 1.5) = log 2
    #   pear   in 1 of 2: log 2                          there in 0: log(1 + 2.5 / 0.5) = log 6
    #   plum   in 0 of 2: log 6                          there in 1: log 2
    apple, other = math.log(2 / 1.2), math.log(6 / 2)
    found = idf_distance(idf_table(APPLES), idf_table(["apple", "plum"]))
    assert found.total == pytest.approx(apple + 2 * other)
    # The corpus has three words: apple twice, pear once, of which the reference lacks one.
    assert found.per_word == pytest.approx((2 * apple + other) / 3)
    assert found.unseen == pytest.approx(1 / 3)
    assert (found.terms, found.documents) == (2, 2)


def test_a_corpus_is_at_no_distance_from_itself():
    found = idf_distance(idf_table(APPLES), idf_table(APPLES))
    assert (found.per_word, found.total, found.unseen) == (0, 0, 0)


def test_distance_per_word_hardly_depends_on_the_size_of_a_corpus_and_the_sum_does():
    words = [f"word{i}" for i in range(200)]
    texts = [" ".join(words[i : i + 20]) for i in range(0, 180)]
    reference = idf_table(["word1 word2 word3"] * 50 + texts)
    small, large = (idf_distance(idf_table(part), reference) for part in (texts, texts * 10))
    assert large.per_word == pytest.approx(small.per_word, rel=0.1)
    rare = [f"{text} rare{i}" for i, text in enumerate(texts)]
    assert idf_distance(idf_table(rare), reference).total > 2 * small.total


def test_a_corpus_without_words_is_refused():
    with pytest.raises(ConfigError, match="has no words"):
        idf_distance(idf_table(["…"]), idf_table(APPLES))


def test_references_are_tasks_files_and_training_pairs(tmp_path):
    beir_folder(tmp_path / "fruit", APPLES)
    (tmp_path / "lines.txt").write_text("apple\npear\napple\n")
    pairs = [{"query": "q", "document": "plum"}, {"query": "r", "document": "plum"}]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    assert reference_documents("task:fruit", [tmp_path]) == APPLES
    assert reference_documents(f"file:{tmp_path}/lines.txt") == ["apple", "pear"]  # each once
    assert reference_documents(f"{tmp_path}/pairs.jsonl") == ["plum"]


def test_what_is_there_is_not_measured_again_and_new_data_is(tmp_path, monkeypatch):
    folder = beir_folder(tmp_path / "data" / "fruit", APPLES)
    (tmp_path / "lines.txt").write_text("apple\nplum\n")
    measured, real = [], module.task_documents

    def documents(source):
        measured.append(source.name)
        return real(source)

    monkeypatch.setattr(module, "task_documents", documents)

    def measure():
        sources = find_tasks(data=[tmp_path / "data"])
        return measure_distances(sources, f"file:{tmp_path}/lines.txt", tmp_path)

    first, again = measure(), measure()
    assert measured == ["fruit"]
    pd.testing.assert_frame_equal(first, again)
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "d9", "title": "", "text": "quince"}) + "\n")
    changed = measure()
    assert measured == ["fruit", "fruit"]
    assert changed["documents"].tolist() == [3]


def test_a_task_that_is_no_search_is_said_and_left_out(tmp_path):
    (tmp_path / "lines.txt").write_text("apple\n")
    failures = []
    found = measure_distances(
        [NO_SEARCH], f"file:{tmp_path}/lines.txt", tmp_path, failed=failures.append
    )
    assert found.empty
    assert "no search of a corpus" in str(failures[0])


def test_the_command_prints_distances_and_what_is_lost(tmp_path, capsys, use):
    from cde_eval.encoders.bm25 import Bm25
    from tests.cde_eval.tiny_encoder import TinyEncoder

    use(bm25=Bm25(), tiny=TinyEncoder())
    data = beir_folder(tmp_path / "fruit", APPLES)
    (tmp_path / "lines.txt").write_text("apple\nplum\n")
    reference = f"file:{tmp_path}/lines.txt"
    command(
        ("tiny",),
        data=(data,),
        reference=reference,
        loading=Loading(device="cpu"),
        output=tmp_path / "out",
    )
    printed = capsys.readouterr().out
    assert "per_word" in printed
    assert "bm25 − tiny" in printed
    assert (tmp_path / "out" / "records").is_dir()


def test_the_command_wants_a_search_task(tmp_path, monkeypatch):
    monkeypatch.setattr("cde_eval.tasks.search_data.find_tasks", lambda names, data: [NO_SEARCH])
    with pytest.raises(CdeError, match="None of these tasks is a search task"):
        command(data=(tmp_path,), output=tmp_path)
