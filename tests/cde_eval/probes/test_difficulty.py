import dataclasses
import json

import numpy as np
import pytest

from cde_core.errors import CdeError, ConfigError, DataError
from cde_core.recipe import ClusterConfig, digest, to_yaml
from cde_eval.commands.difficulty import difficulty as command
from cde_eval.probes import difficulty as module
from cde_eval.probes.difficulty import difficulty, measure_grid, measure_runs
from cde_eval.probes.pairs import source_names
from tests.cde_eval.probes.some_pairs import by_tfidf, judged, pairs_file, read_by_tfidf

FOUR_MATTERS = np.repeat(np.eye(4), 4, axis=0).tolist()
"""Sixteen pairs: rows 0–3 about the first of four orthogonal matters, and so on."""


def test_orthogonal_clusters_give_the_similarities_that_they_must(tmp_path):
    pairs = judged(tmp_path, FOUR_MATTERS, FOUR_MATTERS)
    one_cluster, one_of_each, half_and_half = [0, 1, 2, 3], [0, 4, 8, 12], [0, 1, 4, 5]
    assert difficulty(pairs, [np.array(one_cluster)]).similarity == 1
    assert difficulty(pairs, [np.array(one_of_each)]).similarity == 0
    # Of the three documents that are not a query's own, one is of its matter.
    found = difficulty(pairs, [np.array(half_and_half)])
    assert found.similarity == pytest.approx(1 / 3)
    assert found.hardest == 1
    assert found.false_negatives == pytest.approx(1 / 3)  # as near as the answer itself: cosine 1


def test_means_and_spread_are_over_batches(tmp_path):
    pairs = judged(tmp_path, FOUR_MATTERS, FOUR_MATTERS)
    found = difficulty(pairs, [np.array([0, 1]), np.array([0, 4])])  # cosines 1 and 0
    assert (found.similarity, found.batches) == (0.5, 2)
    assert found.similarity_sd == pytest.approx(np.std([1, 0], ddof=1))


def test_a_negative_counts_as_false_from_the_answers_own_score_on(tmp_path):
    # Query 0 scores 0.6 with its answer and 0.8 with the other; query 1 scores 1 and 0.
    pairs = judged(tmp_path, [[1, 0], [0.6, 0.8]], [[0.6, 0.8], [0.8, -0.6]])
    found = difficulty(pairs, [np.array([0, 1])])
    assert found.similarity == pytest.approx((0.8 + 1.0) / 2)
    assert found.false_negatives == 1  # query 1: its answer scores 0, the other 1


def test_equal_texts_are_no_negatives(tmp_path):
    texts = [("same query", "a"), ("same query", "b"), ("other", "c"), ("another", "c")]
    pairs = judged(tmp_path, [[1.0]] * 4, [[1.0], [1.0], [0.0], [0.0]], texts)
    # Rows 0 and 1 ask the same, rows 2 and 3 have one document: each pair is no negative of itself.
    assert difficulty(pairs, [np.array([0, 1, 2, 3])]).similarity == pytest.approx(0.5)
    with pytest.raises(ConfigError, match="No batch has a negative"):
        difficulty(pairs, [np.array([0, 1])])


def test_batches_of_clusters_are_harder_than_random_ones_and_small_clusters_harder(tmp_path):
    frame = measure_grid(
        read_by_tfidf(tmp_path), tmp_path, cluster_sizes=(0, 8, 24), batch_sizes=(8,)
    ).set_index("cluster_size")
    assert frame["similarity"][0] < frame["similarity"][24] <= frame["similarity"][8]
    assert frame["false_negatives"][0] < frame["false_negatives"][24]


def test_random_batches_are_as_hard_whatever_their_size(tmp_path):
    frame = measure_grid(
        read_by_tfidf(tmp_path), tmp_path, cluster_sizes=(0,), batch_sizes=(6, 36, 72)
    )
    assert np.ptp(frame["similarity"]) < 0.05
    assert frame["hardest"].is_monotonic_increasing  # though the nearest of more is nearer


def test_a_stopped_measurement_goes_on_where_it_was(tmp_path, monkeypatch):
    pairs = read_by_tfidf(tmp_path)
    measured, real = [], module.difficulty

    def stops_at_the_third(judged, batches):
        measured.append(1)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return real(judged, batches)

    monkeypatch.setattr(module, "difficulty", stops_at_the_third)
    sizes = {"cluster_sizes": (0, 8), "batch_sizes": (8, 12)}
    with pytest.raises(KeyboardInterrupt):
        measure_grid(pairs, tmp_path / "a", **sizes)
    continued = measure_grid(pairs, tmp_path / "a", **sizes)
    assert len(measured) == 5  # two, the one that stopped, and the two that were left
    monkeypatch.undo()
    at_once = measure_grid(pairs, tmp_path / "b", **sizes)
    assert continued.round(9).to_dict("records") == at_once.round(9).to_dict("records")


def test_a_batch_that_no_domain_fills_is_said_and_left_out(tmp_path):
    said = []
    frame = measure_grid(
        read_by_tfidf(tmp_path), tmp_path, cluster_sizes=(8,), batch_sizes=(8, 500), say=said.append
    )
    assert frame["batch_size"].tolist() == [8]
    assert said == ["no domain fills a batch of 500; that size is left out"]


def finished_run(folder, pairs, *, scores, size=8, pairs_then=72, **changes):
    recipe = dataclasses.replace(
        pairs.recipe,
        name=folder.name,
        output=folder,
        clusters=dataclasses.replace(pairs.recipe.clusters, size=size),
        batches=dataclasses.replace(pairs.recipe.batches, size=8),
        **changes,
    )
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(to_yaml(recipe))
    result = {"name": folder.name, "recipe_digest": digest(recipe), "steps": 4, "loss": 1.5,
              "pairs": pairs_then, "accuracy": 0.5, "scores": scores}  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))


TFIDF = ClusterConfig(surrogate="tfidf")


def test_a_run_is_judged_by_the_batches_that_it_saw(tmp_path):
    pairs = read_by_tfidf(tmp_path)
    scores = {"A/corpus": 0.6, "B/corpus": 0.8, "mean/corpus": 0.7, "mean/random": 0.5}
    finished_run(tmp_path / "runs" / "clustered", pairs, scores=scores)
    finished_run(tmp_path / "runs" / "mixed", pairs, scores={"mean/none": 0.4}, size=72)
    frame = measure_runs([tmp_path / "runs"], TFIDF, tmp_path).set_index("run")
    assert frame["score"].to_dict() == {"clustered": 0.7, "mixed": 0.4}
    assert frame["tasks"]["clustered"] == "A, B"
    assert frame["loss"]["clustered"] == 1.5
    grid = measure_grid(pairs, tmp_path, cluster_sizes=(8, 72), batch_sizes=(8,))
    expected = dict(zip(["clustered", "mixed"], grid["similarity"], strict=True))
    assert frame["similarity"].to_dict() == pytest.approx(expected)


def test_runs_whose_pairs_have_changed_or_that_have_no_scores_are_said(tmp_path):
    pairs, said = read_by_tfidf(tmp_path), []
    finished_run(tmp_path / "runs" / "changed", pairs, scores={"mean/none": 0.4}, pairs_then=70)
    finished_run(tmp_path / "runs" / "unscored", pairs, scores={}, size=72)
    frame = measure_runs([tmp_path / "runs"], TFIDF, tmp_path, say=said.append)
    assert frame["run"].tolist() == ["changed"]
    assert frame["similarity"].isna().all()
    assert frame["loss"].tolist() == [1.5]
    assert "had 70 pairs and its sources now hold 72" in said[0]
    assert "unscored has no scores" in said[1]


def test_no_finished_run_is_a_mistake_with_advice(tmp_path):
    with pytest.raises(DataError, match="no finished run in it; train some"):
        measure_runs([tmp_path], TFIDF, tmp_path)


def test_the_command_prints_the_grid_and_says_where_it_is(tmp_path, capsys):
    file = pairs_file(tmp_path)
    command(by_tfidf(file), cluster_sizes=(0, 8), batch_sizes=(8,), output=tmp_path)
    printed = capsys.readouterr().out
    assert "false_negatives" in printed
    assert f"{tmp_path}/probes" in printed
    assert [p.suffix for p in sorted((tmp_path / "probes/difficulty").iterdir())] == [
        ".csv",
        ".json",
    ]


def test_the_command_refuses_sizes_that_make_no_batch(tmp_path):
    with pytest.raises(CdeError, match="the least that work are 1, 2 and 0"):
        command(batch_sizes=(1,), output=tmp_path)


def test_sources_are_named_without_the_folders_they_stand_in():
    named = source_names(["docs:-sympy", "../data/pairs.jsonl.gz", "hub:org/name"])
    assert named == ["docs:-sympy", "pairs.jsonl.gz", "hub:org/name"]
