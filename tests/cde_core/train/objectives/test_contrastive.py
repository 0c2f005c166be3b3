import math

import pytest
import torch
from safetensors.torch import load_file

from cde_core.errors import ConfigError
from cde_core.train.objectives.columns import (
    columns,
    false_negatives,
    negatives_of_others,
    similar_beyond,
)
from cde_core.train.objectives.contrastive import contrastive_loss
from tests.cde_core.conftest import REFERENCE

SURROGATE = torch.tensor([[0.5, 0.6, 0.5, 0.9], [0.1, 0.7, 0.8, 0.6]])  # 2 answers, 2 negatives


def ints(mask):
    return mask.int().tolist()


@pytest.fixture
def authors():
    if not REFERENCE.is_dir():
        pytest.skip(f"the authors' numbers are not at {REFERENCE}")
    return load_file(REFERENCE / "loss.safetensors")


def masks(authors):
    """Per reference case, its columns and our mask for it."""
    scores = authors["surrogate_q"] @ authors["surrogate_d"].T
    alone, with_negatives = columns(5), columns(5, 2)
    return {
        "plain": (alone, torch.zeros(5, 5, dtype=torch.bool)),
        "filter_1.0": (alone, false_negatives(scores, alone)),
        "filter_0.2": (alone, similar_beyond(scores, alone, threshold=0.2)),
        "hn2": (with_negatives, torch.zeros(5, 15, dtype=torch.bool)),
        "hn2_no_in_batch": (with_negatives, negatives_of_others(with_negatives)),
    }


CASES = ("plain", "filter_1.0", "filter_0.2", "hn2", "hn2_no_in_batch")


@pytest.mark.parametrize("name", CASES)
def test_loss_and_masks_equal_those_of_the_authors_code(authors, name):
    found, masked = masks(authors)[name]
    assert torch.equal(masked, authors[f"{name}/duplicate"].bool())
    assert torch.equal(found.answers, authors[f"{name}/one_hot"].int().argmax(1))
    documents = authors["e2_with_hn" if name.startswith("hn") else "e2"]
    loss = contrastive_loss(authors["e1"], documents, found, masked=masked)
    assert loss.item() == pytest.approx(authors[f"{name}/loss"].item(), abs=1e-5)


def test_every_case_of_the_reference_is_checked(authors):
    assert {key.split("/")[0] for key in authors if "/" in key} == set(CASES)


def test_agrees_with_cosines_worked_out_by_hand():
    # Both queries point along an axis, the documents along the axes: cosines 1 on the diagonal and
    # 0 beside it. At temperature 1: -log(e^1 / (e^1 + e^0)) = log(1 + 1/e), for both queries.
    loss = contrastive_loss(torch.eye(2) * 7, torch.eye(2) * 3, columns(2), temperature=1)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)))


def test_other_queries_answers_and_hard_negatives_all_count():
    # Four equal columns for each of two queries: blind guessing, log 4.
    same = torch.ones(4, 3)
    assert contrastive_loss(same[:2], same, columns(2, 1)).item() == pytest.approx(math.log(4))


def test_a_masked_column_leaves_the_partition_and_an_answer_never_does():
    same, found = torch.ones(4, 3), columns(2, 1)
    one = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0]]).bool()  # log 3 and log 4
    loss = contrastive_loss(same[:2], same, found, masked=one)
    assert loss.item() == pytest.approx((math.log(3) + math.log(4)) / 2)
    everything = torch.ones(2, 4, dtype=torch.bool)
    assert contrastive_loss(same[:2], same, found, masked=everything).item() == 0


def test_masked_columns_get_no_gradient():
    torch.manual_seed(0)
    documents = torch.randn(4, 3, requires_grad=True)
    masked = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 1]]).bool()
    contrastive_loss(torch.randn(2, 3), documents, columns(2, 1), masked=masked).backward()
    assert documents.grad[3].abs().max() == 0 and documents.grad[:3].abs().min() > 0


def test_whatever_the_surrogate_likes_as_much_as_the_answer_is_masked():
    # Query 0 (answer 0.5): column 1 is better; column 2 is as good, but its own hard negative;
    # column 3 belongs to query 1. Query 1 (answer 0.7): of the others' only column 2 is better.
    assert ints(false_negatives(SURROGATE, columns(2, 1))) == [[0, 1, 0, 1], [0, 0, 1, 0]]


def test_a_margin_keeps_what_is_only_a_little_better():
    found = false_negatives(SURROGATE, columns(2, 1), margin=0.25)
    assert ints(found) == [[0, 0, 0, 1], [0, 0, 0, 0]]


def test_a_fixed_threshold_forgets_how_the_answer_scored():
    found = similar_beyond(SURROGATE, columns(2, 1), threshold=0.8)
    assert ints(found) == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_documents_stand_answers_first_and_then_negatives_query_by_query():
    found = columns(2, 2)
    assert found.answers.tolist() == [0, 1]
    assert found.owners.tolist() == [0, 1, 0, 0, 1, 1]
    assert ints(negatives_of_others(found)) == [[0, 1, 0, 0, 1, 1], [1, 0, 1, 1, 0, 0]]


def test_gathered_batches_keep_each_device_s_layout():
    # Two devices with 2 queries and 1 negative each: answers 0 1, negatives 0 1 | 2 3, 2 3.
    found = columns(4, 1, devices=2)
    assert found.answers.tolist() == [0, 1, 4, 5]
    assert found.owners.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]


def test_filtering_gathered_batches_equals_filtering_one_batch():
    torch.manual_seed(0)
    queries, documents, surrogate = torch.randn(4, 3), torch.randn(8, 3), torch.randn(4, 8)
    one, two = columns(4, 1), columns(4, 1, devices=2)
    to_two = torch.tensor([0, 1, 4, 5, 2, 3, 6, 7])  # where each gathered column stands in one
    assert torch.equal(one.owners[to_two], two.owners)
    whole = contrastive_loss(queries, documents, one, masked=false_negatives(surrogate, one))
    parts = contrastive_loss(
        queries,
        documents[to_two],
        two,
        masked=false_negatives(surrogate[:, to_two], two),
    )
    assert parts.item() == pytest.approx(whole.item(), rel=1e-6)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ConfigError, match="must be positive"):
        contrastive_loss(torch.eye(2), torch.eye(2), columns(2), temperature=0)
    with pytest.raises(ConfigError, match="3 devices cannot share 4"):
        columns(4, devices=3)
    with pytest.raises(ValueError, match="2 × 2 scores"):
        contrastive_loss(torch.eye(2), torch.eye(2), columns(2, 1))
