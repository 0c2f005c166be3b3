import numpy as np
import pandas as pd
import pytest

from cde_core.errors import CdeError, ConfigError
from cde_eval.commands.neighbours import neighbours as command
from cde_eval.probes import neighbours as module
from cde_eval.probes.neighbours import CHARACTERS, measure_neighbours, shortened
from cde_eval.report.neighbours import counts_in_words, neighbour_table
from tests.cde_eval.probes.some_pairs import by_tfidf, judged, pairs_file, read_by_tfidf


def test_neighbours_are_those_of_equation_2(tmp_path):
    pairs = read_by_tfidf(tmp_path)
    frame = measure_neighbours(pairs, tmp_path, queries=3, shown=1, nearest=5)
    row = int(frame.loc[frame["rank"] == 1, "pair"].iloc[0])
    queries, documents = pairs.vectors.queries, pairs.vectors.documents
    by_loop = sorted(
        (-(queries[row] @ documents[other] + documents[row] @ queries[other]) / 2, other)
        for other in range(len(pairs.pairs))
        if other != row
    )
    found = frame[frame["rank"] > 0]
    expected = [-similarity for similarity, _ in by_loop[:5]]
    assert found["similarity"].tolist() == pytest.approx(expected, abs=1e-4)
    assert set(found["query"]) <= set(pairs.pairs.queries(np.arange(len(pairs.pairs))))


def test_documents_as_near_as_the_answer_are_counted(tmp_path):
    # Query 0 has cosine 0.6 with its answer; documents 1 (0.8) and 2 (0.6) are as near, 3 is not.
    # Document 4 is nearer too, but it has the answer's own text.
    documents = [[0.6, 0.8], [0.8, 0.6], [0.6, -0.8], [0.0, 1.0], [1.0, 0.0]]
    texts = [("q0", "a"), ("q1", "b"), ("q2", "c"), ("q3", "d"), ("q4", "a")]
    pairs = judged(tmp_path, [[1, 0]] + [[0, 1]] * 4, documents, texts)
    frame = measure_neighbours(pairs, tmp_path, queries=5, shown=0)
    row = frame[frame["pair"] == 0].iloc[0]
    assert (row["own"], row["as_near"], row["nearest"]) == (0.6, 2, 0.8)


def test_a_stopped_measurement_goes_on_where_it_was(tmp_path, monkeypatch):
    pairs = read_by_tfidf(tmp_path)
    monkeypatch.setattr(module, "QUERIES_AT_ONCE", 10)
    whole = measure_neighbours(pairs, tmp_path / "a", queries=30, shown=12)
    counted, real = [], module._counts

    def counts(judged, rows, shown):
        counted.append(len(rows))
        if len(counted) == 2:
            raise KeyboardInterrupt
        return real(judged, rows, shown)

    monkeypatch.setattr(module, "_counts", counts)
    with pytest.raises(KeyboardInterrupt):
        measure_neighbours(pairs, tmp_path / "b", queries=30, shown=12)
    continued = measure_neighbours(pairs, tmp_path / "b", queries=30, shown=12)
    assert counted == [10, 10, 10, 10]
    pd.testing.assert_frame_equal(continued, whole, check_dtype=False)
    assert (whole["rank"] == 1).sum() == 12  # those that are shown may stand in several blocks


def test_the_table_begins_with_the_pair_itself(tmp_path):
    frame = measure_neighbours(read_by_tfidf(tmp_path), tmp_path, queries=4, shown=1, nearest=2)
    pair = int(frame.loc[frame["rank"] == 1, "pair"].iloc[0])
    table = neighbour_table(frame, pair)
    assert table["rank"].tolist() == ["itself", "1", "2"]
    assert table["similarity"][0] == f"{frame.loc[frame['pair'] == pair, 'own'].iloc[0]:.2f}"


def test_the_sentence_has_a_share_with_wilsons_interval(tmp_path):
    documents = [[0.6, 0.8], [0.8, 0.6], [0.0, 1.0], [0.0, 1.0]]
    pairs = judged(tmp_path, [[1, 0], [1, 0], [0, 1], [0, 1]], documents)
    said = counts_in_words(measure_neighbours(pairs, tmp_path, shown=0), 4)
    # Query 0 (0.6 against 0.8), and queries 2 and 3, which have each other's document at 1.0.
    # Wilson, 3 of 4: (0.75 + z²/8 ± z·√(0.75·0.25/4 + z²/64)) / (1 + z²/4) = 0.301, 0.954.
    assert "75.0% [30.1%, 95.4%]" in said


def test_long_texts_are_cut_and_stand_on_one_line():
    assert shortened("a\n b") == "a b"
    assert len(shortened("word " * 1000)) == CHARACTERS


def test_a_single_pair_has_no_neighbours(tmp_path):
    with pytest.raises(ConfigError, match="only 1 pair"):
        measure_neighbours(judged(tmp_path, [[1.0]], [[1.0]]), tmp_path)


def test_the_command_shows_pairs_and_counts(tmp_path, capsys):
    command(by_tfidf(pairs_file(tmp_path)), shown=1, output=tmp_path)
    printed = capsys.readouterr().out
    assert "itself" in printed
    assert "Of 72 queries drawn from 72 pairs" in printed


def test_the_command_refuses_numbers_that_ask_for_nothing(tmp_path):
    with pytest.raises(CdeError, match="the least that work are 1, 1 and 0"):
        command(queries=0, output=tmp_path)
