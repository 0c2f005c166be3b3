"""A batch follows from the seed and the step, and holds what it says."""

import numpy as np
import pytest

from cde_core.train.batching.batches import plan_batch, texts_of
from cde_core.train.data.pairs import Pair, write_pairs


@pytest.fixture
def pairs(tmp_path):
    """Ten pairs; pair i has i % 4 negatives."""
    made = [
        Pair(f"q{i}", f"d{i}", tuple(f"n{i}.{j}" for j in range(i % 4)), "law" if i < 5 else "food")
        for i in range(10)
    ]
    return write_pairs(made, tmp_path / "pairs")


ROWS = np.array([7, 2, 3, 8])


def test_documents_are_answers_and_then_the_negatives_of_each_query(pairs):
    plan = plan_batch(ROWS, pairs, step=0, seed=0, hard_negatives=9)
    texts = texts_of(plan, pairs, None)
    assert texts.queries == ["q7", "q2", "q3", "q8"]
    assert texts.documents == [
        *("d7", "d2", "d3", "d8"),
        *("n7.0", "n7.1", "n7.2", "n2.0", "n2.1", "n3.0", "n3.1", "n3.2"),
    ]
    assert plan.owners.tolist() == [0, 1, 2, 3, 0, 0, 0, 1, 1, 2, 2, 2]
    assert plan.documents_of(np.array([1, 3])).tolist() == [1, 3, 7, 8]


def test_of_many_negatives_some_are_drawn_and_others_in_another_step(pairs):
    drawn = set()
    for step in range(30):
        plan = plan_batch(ROWS[:1], pairs, step=step, seed=0, hard_negatives=2)
        texts = texts_of(plan, pairs, None)
        assert len(set(texts.documents)) == 3  # the answer and two different negatives
        drawn |= set(texts.documents[1:])
    assert drawn == {"n7.0", "n7.1", "n7.2"}


def test_the_same_step_is_the_same_batch_and_another_step_or_seed_is_not(pairs):
    def drawn(step, seed):
        plan = plan_batch(ROWS, pairs, step=step, seed=seed, hard_negatives=1, context_documents=3)
        sides = [side.documents.tolist() for side in plan.contexts]
        return plan.negatives.tolist(), sides

    assert drawn(5, 1) == drawn(5, 1)
    assert len({str(drawn(step, seed)) for step in range(4) for seed in range(4)}) == 16


def test_queries_and_documents_read_separate_draws_of_the_batch_s_documents(pairs):
    differ = 0
    for step in range(10):
        plan = plan_batch(ROWS, pairs, step=step, seed=0, hard_negatives=1, context_documents=4)
        for_queries, for_documents = (side.documents for side in plan.contexts)
        for side in (for_queries, for_documents):
            assert len(set(side.tolist())) == 4  # without replacement
            assert set(side.tolist()) <= set(range(len(plan.owners)))
        differ += set(for_queries.tolist()) != set(for_documents.tolist())
    assert differ > 0


def test_a_small_batch_is_read_whole_before_anything_is_read_twice(pairs):
    plan = plan_batch(ROWS, pairs, step=0, seed=0, context_documents=10)
    for side in plan.contexts:
        assert len(side.documents) == 10
        assert sorted(side.documents[:4].tolist()) == [0, 1, 2, 3]


def test_as_many_vectors_are_dropped_as_the_probability_says(pairs):
    """400 batches of two sides of 10 vectors at p = 0.1: 800 expected, give or take 27."""
    settings = {"seed": 0, "context_documents": 5, "tokens_per_document": 2}
    plans = [plan_batch(ROWS, pairs, step=i, sequence_dropout=0.1, **settings) for i in range(400)]
    dropped = sum(side.dropped.sum() for plan in plans for side in plan.contexts)
    assert 700 < dropped < 900


def test_whole_contexts_are_dropped_together(pairs):
    plans = [
        plan_batch(ROWS, pairs, step=i, seed=0, context_documents=5, whole_context_dropout=0.5)
        for i in range(100)
    ]
    sides = [side.dropped for plan in plans for side in plan.contexts]
    assert all(side.all() or not side.any() for side in sides)
    assert 70 < sum(side.all() for side in sides) < 130


def test_every_domain_has_its_prefixes(pairs):
    plan = plan_batch(ROWS, pairs, step=0, seed=0, hard_negatives=1)
    everyone = np.arange(4)
    default = texts_of(plan, pairs, {})
    assert default.prefixed_queries(everyone)[1] == "search_query: q2"
    assert default.prefixed_documents(everyone)[1] == "search_document: d2"

    texts = texts_of(plan, pairs, {"law": ("ask ", "law "), "*": ("", "other ")})
    assert texts.prefixed_queries(everyone) == ["q7", "ask q2", "ask q3", "q8"]
    answers_and_a_negative_of_q2 = texts.prefixed_documents(np.array([0, 1, 5]))
    assert answers_and_a_negative_of_q2[:2] == ["other d7", "law d2"]
    assert answers_and_a_negative_of_q2[2].startswith("law n2.")
    assert texts_of(plan, pairs, None).prefixed_queries(everyone) == ["q7", "q2", "q3", "q8"]
