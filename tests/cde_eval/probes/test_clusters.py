import dataclasses

import numpy as np
import pytest

from cde_core.errors import CdeError
from cde_core.train.preparation import clusters_of
from cde_eval.commands.clusters import clusters as command
from cde_eval.probes import clusters as module
from cde_eval.probes.clusters import measure_clusters
from cde_eval.report.neighbours import cluster_in_words, cluster_table
from tests.cde_eval.probes.some_pairs import by_tfidf, judged, pairs_file, read_by_tfidf


def test_pairs_of_a_drawn_cluster_are_of_one_cluster_and_near_each_other(tmp_path):
    pairs = read_by_tfidf(tmp_path)
    frame = measure_clusters(pairs, tmp_path, size=24, shown=2, samples=5)
    recipe = dataclasses.replace(
        pairs.recipe, clusters=dataclasses.replace(pairs.recipe.clusters, size=24)
    )
    of = clusters_of(recipe, pairs.pairs, lambda line: None).of
    cluster_of = {pair.query: int(of[row]) for row, pair in enumerate(pairs.pairs)}
    assert frame.groupby("drawn").size().to_dict() == {0: 5, 1: 5}
    assert [cluster_of[query] for query in frame["query"]] == frame["cluster"].tolist()
    assert frame["cluster"].nunique() == 2
    assert (frame["within"] > frame["outside"]).all()


def test_what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    pairs = read_by_tfidf(tmp_path)
    first = measure_clusters(pairs, tmp_path, size=24, shown=2)
    monkeypatch.setattr(module, "clusters_of", None)
    assert measure_clusters(pairs, tmp_path, size=24, shown=2).to_csv() == first.to_csv()


def test_a_cluster_whose_pairs_all_ask_the_same_has_no_similarity(tmp_path):
    pairs = judged(tmp_path, [[1.0]] * 2, [[1.0]] * 2, [("q", "a"), ("q", "b")])
    assert np.isnan(module._similarity(pairs, np.array([0, 1])))


def test_the_command_shows_pairs_of_clusters(tmp_path, capsys):
    file = pairs_file(tmp_path)
    command(by_tfidf(file), size=72, shown=1, samples=4, output=tmp_path)
    assert "4 of the 72 pairs of a cluster" in capsys.readouterr().out


def test_the_table_has_query_and_document(tmp_path):
    frame = measure_clusters(read_by_tfidf(tmp_path), tmp_path, size=24, shown=2, samples=5)
    assert cluster_table(frame, 1).columns.tolist() == ["query", "document"]
    assert len(cluster_table(frame, 1)) == 5
    assert "5 of the" in cluster_in_words(frame, 1)


def test_the_command_refuses_numbers_that_ask_for_nothing(tmp_path):
    with pytest.raises(CdeError, match="the least that works is 1"):
        command(samples=0, output=tmp_path)
