"""Every query in the context of its own candidates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cde_eval.own_contexts import rank_in_own_contexts
from cde_eval.ranking import Ranking

DOCUMENTS = ["a", "bb", "ccc", "dddd", "eeeee"]
CANDIDATES = [np.array([4, 0, 2]), np.array([1]), np.array([], dtype=np.int64), np.array([3, 1])]
QUERIES = ["one", "two", "three", "four"]


class Longest:
    """Ranks the longest first, scores by length plus the length of the whole context."""

    def __init__(self, dies_at: str = "") -> None:
        self.read: list[list[str]] = []
        self.ranked: list[str] = []
        self.dies_at = dies_at

    def read_context(self, documents: list[str]) -> int:
        self.read.append(documents)
        return sum(map(len, documents))

    def rank(self, query: str, documents: list[str], context: Any) -> Ranking:
        if query == self.dies_at:
            raise KeyboardInterrupt
        self.ranked.append(query)
        rows = np.argsort([-len(document) for document in documents])
        scores = np.array([len(documents[row]) + 100 * context for row in rows], dtype=np.float32)
        return Ranking(rows=rows[None], scores=scores[None])

    def run(self, unfinished: Path | None = None, size: int | None = None) -> Ranking:
        return rank_in_own_contexts(
            QUERIES,
            DOCUMENTS,
            CANDIDATES,
            read=self.read_context,
            rank=self.rank,
            size=size,
            unfinished=unfinished,
        )


def test_each_query_reads_its_best_candidates_and_ranks_all_of_them():
    model = Longest()
    ranking = model.run(size=2)
    assert model.read == [["eeeee", "a"], ["bb"], ["dddd", "bb"]]
    assert ranking.rows.tolist() == [[4, 2, 0], [1, -1, -1], [-1, -1, -1], [3, 1, -1]]
    assert ranking.scores[0].tolist() == [605, 603, 601]
    assert np.isneginf(ranking.scores[2]).all()


def test_a_run_that_was_stopped_ranks_only_what_is_left_and_ends_the_same(tmp_path):
    whole, file = Longest().run(), tmp_path / "records" / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        Longest(dies_at="four").run(file)
    model = Longest()
    resumed = model.run(file)
    assert model.ranked == ["four"]
    np.testing.assert_array_equal(resumed.rows, whole.rows)
    np.testing.assert_array_equal(resumed.scores, whole.scores)
    assert not file.exists()


def test_a_line_cut_by_a_kill_is_ranked_again(tmp_path):
    file = tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        Longest(dies_at="four").run(file)
    file.write_bytes(file.read_bytes()[:-4])
    model = Longest()
    np.testing.assert_array_equal(model.run(file).rows, Longest().run().rows)
    assert model.ranked == ["four"]  # the third has no candidates: its line says nothing


def test_rankings_of_other_candidates_are_not_used(tmp_path, monkeypatch):
    file = tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        Longest(dies_at="four").run(file)
    monkeypatch.setitem(globals(), "CANDIDATES", [rows[::-1] for rows in CANDIDATES])
    model = Longest()
    model.run(file)
    assert model.ranked == ["one", "two", "four"]


def test_rankings_of_documents_with_another_text_are_not_used(tmp_path, monkeypatch):
    file = tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        Longest(dies_at="four").run(file)
    monkeypatch.setitem(globals(), "DOCUMENTS", [*DOCUMENTS[:4], "e"])
    model = Longest()
    model.run(file)
    assert model.ranked == ["one", "two", "four"]
