import pytest
import torch

from cde_core.model.pooling import OF_ROWS, after_instruction, mean, mean_of_spans

ROWS = torch.tensor([[[1.0], [2.0], [3.0], [4.0], [90.0]]])
MASK = torch.tensor([[True, True, True, True, False]])


def test_mean_leaves_out_padding():
    assert mean(ROWS, MASK).item() == (1 + 2 + 3 + 4) / 4


def test_mean_without_a_mask_takes_all_rows():
    assert mean(ROWS, None).item() == (1 + 2 + 3 + 4 + 90) / 5


def test_mean_of_nothing_is_zero_and_not_nan():
    assert mean(ROWS, torch.zeros_like(MASK)).item() == 0


@pytest.mark.parametrize(
    ("spans", "means"),
    [
        (1, [(1 + 2 + 3 + 4) / 4]),
        (2, [(1 + 2) / 2, (3 + 4) / 2]),
        (3, [(1 + 2) / 2, (3 + 4) / 2, (1 + 2 + 3 + 4) / 4]),  # ceil(4 / 3) = 2 rows per span
        (4, [1, 2, 3, 4]),
    ],
)
def test_spans_are_contiguous_and_empty_ones_take_the_mean_of_all(spans, means):
    assert mean_of_spans(ROWS, MASK, spans).flatten().tolist() == means


def test_spans_do_not_depend_on_how_far_a_text_was_padded():
    further = torch.nn.functional.pad(ROWS, (0, 0, 0, 3), value=7.0)
    mask = torch.nn.functional.pad(MASK, (0, 3))
    assert torch.equal(mean_of_spans(ROWS, MASK, 2), mean_of_spans(further, mask, 2))


@pytest.mark.parametrize(
    ("spans", "means"),
    # As published, five rows (the last one padding) are cut, lengthened to a multiple by zeros.
    [
        (1, [(1 + 2 + 3 + 4) / 4]),
        (2, [(1 + 2 + 3) / 3, 4]),  # six rows: 1 2 3 | 4 pad 0
        (4, [(1 + 2) / 2, (3 + 4) / 2, (1 + 2 + 3 + 4 + 90) / 8, (1 + 2 + 3 + 4 + 90) / 8]),
        (5, [1, 2, 3, 4, (1 + 2 + 3 + 4 + 90) / 5]),
    ],
)
def test_spans_of_padded_sequences_are_cut_as_published(spans, means):
    found = mean_of_spans(ROWS, MASK, spans, of="padded").flatten()
    torch.testing.assert_close(found, torch.tensor(means))


def test_spans_of_padded_sequences_depend_on_the_padding():
    further = torch.nn.functional.pad(ROWS, (0, 0, 0, 3), value=7.0)
    mask = torch.nn.functional.pad(MASK, (0, 3))
    found = mean_of_spans(further, mask, 2, of="padded").flatten().tolist()
    assert found == [(1 + 2 + 3 + 4) / 4, (1 + 2 + 3 + 4 + 90 + 7 + 7 + 7) / 8]


@pytest.mark.parametrize(
    ("ids", "counted"),
    [
        ([9, 5, 4, 8, 6], [0, 0, 0, 1, 1]),  # 4 is the colon
        ([9, 5, 4, 4, 6], [0, 0, 0, 1, 1]),  # only the first one ends the instruction
        ([9, 5, 8, 8, 6], [1, 1, 1, 1, 1]),  # no instruction
        ([4, 5, 4, 8, 6], [1, 1, 1, 1, 1]),  # a colon at the very start ends nothing
    ],
)
def test_an_instruction_ends_with_the_first_colon(ids, counted):
    assert after_instruction(torch.tensor([ids]), None, 4).int().tolist() == [counted]


def test_padding_is_left_out_with_the_instruction():
    ids = torch.tensor([[9, 4, 8, 0]])
    mask = torch.tensor([[True, True, True, False]])
    assert after_instruction(ids, mask, 4).int().tolist() == [[0, 0, 1, 0]]


def by_hand(pooling):
    """Of rows (1, 5), (3, 2), (2, 4), the last of which may be padding."""
    return {
        "mean": ([2, 11 / 3], [2, 3.5]),
        "cls": ([1, 5], [1, 5]),
        "max": ([3, 5], [3, 5]),
        "lasttoken": ([2, 4], [3, 2]),
        "weightedmean": ([(1 + 6 + 6) / 6, (5 + 4 + 12) / 6], [(1 + 6) / 3, (5 + 4) / 3]),
    }[pooling]


@pytest.mark.parametrize("pooling", OF_ROWS)
def test_each_pooling_by_hand(pooling):
    rows = torch.tensor([[[1.0, 5.0], [3.0, 2.0], [2.0, 4.0]]])
    whole, padded = by_hand(pooling)
    torch.testing.assert_close(OF_ROWS[pooling](rows, None), torch.tensor([whole]).float())
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(OF_ROWS[pooling](rows, mask), torch.tensor([padded]).float())


@pytest.mark.parametrize("pooling", OF_ROWS)
def test_each_pooling_equals_that_of_sentence_transformers(pooling):
    from sentence_transformers.sentence_transformer.modules import Pooling

    torch.manual_seed(0)
    rows = torch.randn(3, 7, 8) - 3  # so that a maximum of 0 would be padding
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    theirs = Pooling(8, pooling)({"token_embeddings": rows, "attention_mask": mask.long()})
    torch.testing.assert_close(OF_ROWS[pooling](rows, mask), theirs["sentence_embedding"])


@pytest.mark.parametrize("pooling", OF_ROWS)
def test_a_text_of_which_no_row_counts_gives_numbers(pooling):
    found = OF_ROWS[pooling](torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
    assert found.isfinite().all()
