"""What a run draws its batches from is what its recipe says."""

import json

import numpy as np
import pytest

from cde_core.errors import ConfigError
from cde_core.recipe import Recipe, with_values
from cde_core.train.batching import surrogates
from cde_core.train.distributed import World
from cde_core.train.preparation import prepare

SUBJECTS = {"law": "court judge tax", "food": "bread oven flour", "sea": "boat sail net"}


@pytest.fixture
def recipe(tmp_path):
    """Three domains of 40 pairs each."""
    with (tmp_path / "pairs.jsonl").open("w") as file:
        for number in range(120):
            domain, words = list(SUBJECTS.items())[number % 3]
            row = {"query": f"{words} {number}", "document": f"{words} {number} answer"}
            file.write(json.dumps({**row, "domain": domain}) + "\n")
    values = {
        "data": {"sources": [str(tmp_path / "pairs.jsonl")]},
        "clusters": {"size": 10, "surrogate": "tfidf"},
        "batches": {"size": 16},
    }
    return with_values(Recipe(), values, where="the test")


def prepared(recipe, **values):
    said = []
    dotted = {name.replace("__", "."): value for name, value in values.items()}
    return prepare(with_values(recipe, dotted, where="the test"), World(), said.append), said


def domains_of_batches(data, epoch=0):
    return [set(data.pairs.domain_of[rows].tolist()) for rows in data.packing(epoch).batches]


def test_batches_are_of_one_domain_and_what_fills_none_is_said(recipe):
    data, said = prepared(recipe)
    assert all(len(domains) == 1 for domains in domains_of_batches(data))
    assert data.batches_per_epoch == 6  # two of every domain's 40 pairs, 8 left out of each
    assert "120 pairs, 3 domains" in said[0]
    assert said[-1] == "6 batches of 16 an epoch, 24 pairs left out; 6 steps"


def test_without_clusters_batches_are_random_within_a_domain_or_altogether(recipe):
    within, _ = prepared(recipe, clusters__size=0)
    assert all(len(domains) == 1 for domains in domains_of_batches(within))
    anywhere, said = prepared(recipe, clusters__size=0, batches__across_domains="always")
    assert all(len(domains) == 3 for domains in domains_of_batches(anywhere))
    assert "no clusters: batches are random" in said


def test_steps_walk_through_the_epochs_which_all_differ(recipe):
    data, _ = prepared(recipe, epochs=2)
    assert data.steps == 12
    first = np.sort(np.concatenate([data.rows(step) for step in range(6)]))
    assert len(np.unique(first)) == 96  # no pair twice in an epoch
    assert data.rows(6).tolist() != data.rows(0).tolist()
    assert data.rows(0).tolist() == prepared(recipe, epochs=2)[0].rows(0).tolist()


def test_so_many_steps_as_are_asked_for_take_as_many_epochs_as_they_need(recipe):
    data, _ = prepared(recipe, steps=20)
    assert data.steps == 20 and len(data.rows(19)) == 16


def test_the_clusters_surrogate_can_be_the_filter_too(recipe):
    data, _ = prepared(recipe, filter__surrogate="clusters")
    assert data.filter.vectors is not None and data.filter.surrogate is None
    assert len(data.filter.vectors.queries) == 120
    at_batch_time, _ = prepared(recipe, filter__surrogate="tfidf", filter__when="batch")
    assert at_batch_time.filter.vectors is None and at_batch_time.filter.surrogate is not None
    assert prepared(recipe)[0].filter.vectors is None


def test_domains_that_fill_no_batch_are_named(recipe):
    _, said = prepared(recipe, batches__size=30, data__exclude_domains=["law"])
    assert not any("never trained on" in line for line in said)
    with pytest.raises(ConfigError, match="No domain fills a batch of 41: there are 40 pairs"):
        prepared(recipe, batches__size=41)
    with pytest.raises(ConfigError, match=r"No number of domains fill .* to 120 or less\."):
        prepared(recipe, batches__size=121, batches__across_domains="always")


def test_prefixes_of_domains_that_are_not_there_are_named(recipe):
    prefixes = {"*": ["q", "d"], "law": ["q", "d"], "lwa": ["q", "d"]}
    _, said = prepared(recipe, data__prefixes=prefixes)
    assert "data.prefixes also names lwa, of which there are no pairs" in said
    _, said = prepared(recipe, data__prefixes={"*": ["q", "d"], "law": ["q", "d"]})
    assert not any("prefixes" in line for line in said)


def test_settings_that_would_do_nothing_are_refused(recipe):
    with pytest.raises(ConfigError, match=r"need a filter\.surrogate"):
        prepared(recipe, filter__margin=0.1)
    with pytest.raises(ConfigError, match=r"evaluation\.every is 5, but"):
        prepared(recipe, evaluation__every=5)
    prefixes = {"*": ["q", "d"]}
    with pytest.raises(ConfigError, match=r"data\.prefixes names some, but model\.prefixes is fal"):
        prepared(recipe, data__prefixes=prefixes, model__prefixes=False)


def test_hard_negatives_that_nobody_has_are_refused(recipe):
    with pytest.raises(ConfigError, match="hard_negatives is 2, but no pair has any"):
        prepared(recipe, batches__hard_negatives=2)


def test_what_was_embedded_before_is_not_embedded_again(recipe, monkeypatch):
    before, _ = prepared(recipe)
    monkeypatch.setattr(surrogates, "_vectors_of", None)
    again, _ = prepared(recipe)
    assert np.array_equal(again.clusters.of, before.clusters.of)
