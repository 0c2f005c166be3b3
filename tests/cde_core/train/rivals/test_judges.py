import numpy as np
import pytest
import torch

from cde_core.errors import ConfigError
from cde_core.model.checkpoint import load, save
from cde_core.text import Purpose
from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.rivals.groups import Group
from cde_core.train.rivals.judges import ModelJudge, digest_to_the_bit, judge_named
from cde_core.train.rivals.readings import read_group

MADE = [
    Pair("tax law", "the law of the court"),
    Pair("a cat", "a cat in the town"),
    Pair("tax law", "a judge"),
    Pair("the river", "the law of the court"),
]
QUERY, DOCUMENT = Purpose("Retrieval", "query"), Purpose("Retrieval", "document")


@pytest.fixture
def group(tmp_path):
    pairs = write_pairs(MADE, tmp_path / "pairs")
    return Group.of(pairs, np.arange(4), number=0, domain="")


def test_a_model_reads_with_its_own_prefixes_in_the_context_of_the_group(encoder, group, tmp_path):
    model = encoder(context_documents=6)
    reading = read_group(group, ModelJudge(model), tmp_path / "read")
    texts = ["the law of the court", "a cat in the town", "a judge"]
    context = model.read_context(texts)  # all three, since six are wanted
    assert reading.documents == pytest.approx(model.encode_documents(texts, context), abs=1e-5)
    queries = model.encode_queries(["tax law", "a cat", "the river"], context)
    assert reading.queries == pytest.approx(queries, abs=1e-5)


def test_prefixes_that_are_given_stand_before_the_texts(encoder, group, tmp_path):
    model = encoder(null_context=True)
    pairs = group.pairs
    named = judge_named(
        str(save(model, tmp_path / "model")), pairs=pairs, prefixes=("dog: ", "boat: ")
    )
    reading = read_group(group, named, tmp_path / "read")
    bare = encoder(null_context=True, prefixes=False)
    texts = [f"boat: {text}" for text in group.documents(np.arange(3))]
    context = bare.read_context(texts)
    assert reading.documents == pytest.approx(bare.encode(texts, context=context), abs=1e-5)
    expected = bare.encode(["dog: tax law"], context=context)
    assert reading.queries[:1] == pytest.approx(expected, abs=1e-5)


def test_judges_that_read_otherwise_have_other_fingerprints(encoder, tmp_path):
    folder = save(encoder(), tmp_path / "model")
    prints = {
        ModelJudge(load(folder, device="cpu"), **settings).fingerprint
        for settings in (
            {},
            {"prefixes": {"*": ("query: ", "passage: ")}},
            {"max_length": 7},
            {"seed": 1},
        )
    }
    assert len(prints) == 4
    changed = load(folder, device="cpu")
    before = digest_to_the_bit(changed.model)
    with torch.no_grad():  # by less than bfloat16 shows
        next(changed.model.parameters()).view(-1)[0].mul_(1 + 2**-20)
    assert digest_to_the_bit(changed.model) != before


def test_prefixes_for_what_is_no_model_are_refused(group):
    with pytest.raises(ConfigError, match="tfidf reads texts as it does"):
        judge_named("tfidf", pairs=group.pairs, prefixes=("query: ", ""))


def test_a_damaged_reading_is_made_again(encoder, group, tmp_path):
    judge = ModelJudge(encoder())
    before = read_group(group, judge, tmp_path).documents.copy()
    file = tmp_path / "documents.npy"
    file.write_bytes(file.read_bytes()[:-1])
    assert np.array_equal(read_group(group, judge, tmp_path).documents, before)
