import numpy as np
import pytest

from cde_core.errors import ModelError
from cde_core.text import Purpose, prefix_for, token_budget_batches
from cde_core.tokens import TextReader, load_tokenizer, pad


@pytest.mark.parametrize(
    ("purpose", "prefix"),
    [
        (Purpose("Retrieval", "query"), "search_query: "),
        (Purpose("Retrieval", "document"), "search_document: "),
        (Purpose("Retrieval", "document", "QuoraRetrieval"), "search_query: "),
        (Purpose("Clustering"), "clustering: "),
        (Purpose("STS"), "classification: "),
        (Purpose("Reranking", "query"), "classification: "),
    ],
)
def test_every_purpose_has_its_published_prefix(purpose, prefix):
    assert prefix_for(purpose) == prefix


def test_batches_hold_every_text_once_and_stay_within_the_budget():
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 90, 500)]
    batches = list(token_budget_batches(lengths, 200))
    assert sorted(i for batch in batches for i in batch) == list(range(500))
    assert all(max(lengths[i] for i in b) * len(b) <= 200 for b in batches)


def test_batches_hold_texts_of_similar_length_longest_first():
    assert list(token_budget_batches([2, 9, 3, 8], 18)) == [[1, 3], [2, 0]]


def test_a_text_longer_than_the_budget_is_alone():
    assert list(token_budget_batches([5, 50, 5], 20)) == [[1], [0, 2]]


def test_rows_that_travel_with_a_text_count():
    assert list(token_budget_batches([2, 2, 2], 24, extra=10)) == [[0, 1], [2]]


def test_no_texts_make_no_batches():
    assert list(token_budget_batches([], 20)) == []


def test_a_text_is_cut_by_characters_after_its_prefix(tokenizer):
    # 4 tokens at 4 characters: 16 of "clustering: cat dog law tax" are "clustering: cat "
    reader = TextReader(tokenizer, max_length=4, characters_per_token=4)
    assert reader.read(["cat dog law tax"], "clustering: ")[0].tolist() == [1, 8, 4, 2]
    reader = TextReader(tokenizer, max_length=5, characters_per_token=3)
    assert reader.read(["cat dog law tax"], "")[0].tolist() == [1, 11, 12, 14, 2]


def test_a_text_is_cut_by_tokens_and_keeps_its_closing_token(tokenizer):
    reader = TextReader(tokenizer, max_length=4)
    assert reader.read(["cat dog law tax"])[0].tolist() == [1, 11, 12, 2]


def test_an_empty_text_has_tokens(tokenizer):
    assert len(TextReader(tokenizer, max_length=4).read([""])[0]) == 2


def test_reading_leaves_the_tokenizer_as_it_was(tokenizer):
    TextReader(tokenizer, max_length=4).read(["cat dog law tax"])
    assert len(tokenizer.encode("cat dog law tax").ids) == 6


def test_padding_is_masked_and_no_padding_needs_no_mask():
    ids, mask = pad([np.array([1, 5, 2], np.int32), np.array([1, 2], np.int32)])
    assert ids.tolist() == [[1, 5, 2], [1, 2, 0]]
    assert mask is not None and mask.tolist() == [[True, True, True], [True, True, False]]
    assert pad([np.array([1, 2], np.int32)])[1] is None


def test_a_missing_tokenizer_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=r"No tokenizer in .*tokenizer\.json"):
        load_tokenizer([tmp_path])
