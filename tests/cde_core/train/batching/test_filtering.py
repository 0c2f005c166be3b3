"""What a surrogate likes as much as the answer leaves the partition, and so do equal texts."""

import numpy as np
import pytest
import torch

from cde_core.train.batching.batches import plan_batch, texts_of
from cde_core.train.batching.filtering import Filter
from cde_core.train.batching.surrogates import PairVectors
from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.objectives.contrastive import contrastive_loss

QUERIES = np.arange(3)


@pytest.fixture
def batch(tmp_path):
    """Three pairs, the first with a hard negative."""
    made = [Pair("q0", "d0", ("n0",)), Pair("q1", "d1"), Pair("q2", "d2")]
    pairs = write_pairs(made, tmp_path / "pairs")
    plan = plan_batch(QUERIES, pairs, step=0, seed=0, hard_negatives=1)
    return plan, texts_of(plan, pairs, None)


def scores_as_vectors(scores):
    """Vectors whose products are the wanted scores: unit queries, documents in columns."""
    queries = np.eye(3, dtype=np.float32)
    documents = np.array(scores, dtype=np.float32).T
    return PairVectors(queries, documents[:3], documents[3:], digest="")


SCORES = [
    # d0   d1   d2   n0
    [0.5, 0.6, 0.4, 0.9],  # d1 beats the answer; n0 does too, but is q0's own
    [0.1, 0.8, 0.8, 0.9],  # d2 equals the answer, n0 beats it
    [0.2, 0.3, 0.7, 0.1],  # nothing does
]


def test_columns_that_score_like_the_answer_leave_but_not_own_negatives(batch):
    masked = Filter(vectors=scores_as_vectors(SCORES)).masks(*batch)(QUERIES)
    assert masked.int().tolist() == [[0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]]


def test_a_surrogate_that_knows_nothing_of_a_query_or_its_answer_masks_nothing(batch):
    vectors = scores_as_vectors(SCORES)
    vectors.queries[0] = 0  # of the first it knows not the query, of the second not the answer
    vectors.documents[1] = 0
    assert Filter(vectors=vectors).masks(*batch)(QUERIES[:2]) is None


def test_the_margin_moves_the_line(batch):
    masked = Filter(vectors=scores_as_vectors(SCORES), margin=0.05).masks(*batch)(QUERIES)
    assert masked.int().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]


def test_a_threshold_does_not_ask_for_the_answers_score(batch):
    masked = Filter(vectors=scores_as_vectors(SCORES), threshold=0.3).masks(*batch)(QUERIES)
    assert masked.int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]]


def test_a_surrogate_on_the_batch_says_what_its_vectors_say(batch):
    vectors = scores_as_vectors(SCORES)

    class OnTheBatch:
        fingerprint = "-"

        def encode(self, texts, side):
            known = {f"q{i}": vectors.queries[i] for i in range(3)}
            known |= {f"d{i}": vectors.documents[i] for i in range(3)} | {
                "n0": vectors.negatives[0]
            }
            assert all((side == "query") == text.startswith("q") for text in texts)
            return np.stack([known[text] for text in texts])

    before = Filter(vectors=vectors).masks(*batch)(QUERIES)
    assert torch.equal(Filter(surrogate=OnTheBatch()).masks(*batch)(QUERIES), before)


def test_asking_for_some_queries_gives_their_rows(batch):
    masks = Filter(vectors=scores_as_vectors(SCORES)).masks(*batch)
    some = np.array([1, 0])
    assert torch.equal(masks(some), masks(QUERIES)[torch.from_numpy(some)])
    assert masks(np.array([2])) is None


def test_equal_texts_are_no_negatives(tmp_path):
    made = [
        Pair("same question", "one answer", ("hard",)),
        Pair("same question", "another answer"),
        Pair("other question", "one answer"),
        Pair("a fourth", "hard"),
    ]
    pairs = write_pairs(made, tmp_path / "pairs")
    plan = plan_batch(np.arange(4), pairs, step=0, seed=0, hard_negatives=1)
    texts = texts_of(plan, pairs, None)
    masked = Filter().masks(plan, texts)(np.arange(4))
    #    one  another  one  hard | hard, the first query's own
    assert masked.int().tolist() == [
        [0, 1, 1, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
    ]
    assert Filter(duplicates=False).masks(plan, texts)(np.arange(4)) is None


def test_answers_are_no_hard_negatives_whoever_brought_them(tmp_path):
    made = [
        Pair("tax?", "in May", ("in May", "never")),  # its own answer among its negatives
        Pair("tax?", "in June", ("in May",)),  # another answer to its text among its negatives
        Pair("rain?", "today", ("in June",)),  # an answer to the others
    ]
    pairs = write_pairs(made, tmp_path / "pairs")
    plan = plan_batch(QUERIES, pairs, step=0, seed=0, hard_negatives=2)
    texts = texts_of(plan, pairs, None)
    assert texts.documents[3:] == ["in May", "never", "in May", "in June"]
    masked = Filter().masks(plan, texts)(QUERIES)
    assert masked.int().tolist() == [
        [0, 1, 0, 1, 0, 1, 1],
        [1, 0, 0, 1, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ]


def test_a_perfect_model_loses_nothing_where_an_answer_is_its_own_hard_negative(tmp_path):
    pairs = write_pairs([Pair("q0", "tax", ("tax",)), Pair("q1", "sea")], tmp_path / "pairs")
    plan = plan_batch(np.arange(2), pairs, step=0, seed=0, hard_negatives=1)
    queries = torch.eye(2)
    masked = Filter().masks(plan, texts_of(plan, pairs, None))(np.arange(2))
    documents = queries[[0, 1, 0]]  # tax, sea, tax
    loss = contrastive_loss(queries, documents, plan.columns, masked=masked, temperature=0.01)
    assert loss.item() == pytest.approx(0, abs=1e-6)
