import dataclasses

import numpy as np
import pytest
import torch

from cde_core.errors import ConfigError, ContextError
from cde_core.model.config import ContextualConfig
from cde_core.model.context import Context
from cde_core.model.contextual import ContextualEncoder, Prepared
from cde_core.model.encode import TOKENS_AT_ONCE
from cde_core.tokens import pad

from .conftest import BACKBONES

FAMILIES = list(BACKBONES)
MODES = ("joint", "prefix")
IDS = torch.randint(3, 50, (4, 11), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(11) < torch.tensor([[11], [7], [3], [9]])
TEXTS = ["cat and dog : law", "the river", "", "bread flour oven " * 9, "tax law court judge", "a"]
DOCUMENTS = ["tax law court", "judge", "the king of law", "court of the town", "tax", "law law"]


def vectors(seed=0, rows=6):
    return torch.randn(rows, 32, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_another_corpus_gives_another_embedding(contextual, family, mode):
    model = contextual(family, context_attention=mode)
    one, other = (model(IDS, MASK, model.prepare(vectors(seed))) for seed in (0, 1))
    assert (one - other).abs().amax(dim=1).min() > 1e-3


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_the_order_of_the_context_means_nothing_in_v1(contextual, mode):
    model = contextual("nomic", context_attention=mode)
    one, other = (model(IDS, MASK, model.prepare(v)) for v in (vectors(), vectors().flip(0)))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_order_of_the_context_matters_in_v2(contextual):
    model = contextual("modernbert", rotary_on_context=True)
    one, other = (model(IDS, MASK, model.prepare(v)) for v in (vectors(), vectors().flip(0)))
    assert (one - other).abs().max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_computing_only_the_text_rows_of_the_last_layer_changes_nothing(contextual, family):
    model = contextual(family, rotary_on_context=family == "modernbert")
    context = model.prepare(vectors())
    kept = model.hidden(IDS, MASK, context)
    model.config = dataclasses.replace(model.config, pool_context=True)
    everything = model.hidden(IDS, MASK, context)
    assert everything.shape[1] == 6 + 3 + 11
    torch.testing.assert_close(kept[MASK], everything[:, -11:][MASK], atol=1e-5, rtol=0)


def uncached(model, context):
    """Prefix attention without a cache: one sequence, one mask, every row in every layer."""
    backbone, in_front = model.backbone, context.rows.shape[1]
    x = torch.cat((context.rows.expand(len(IDS), -1, -1), model.text_rows(IDS)), dim=1)
    places, rows = model._places(in_front, IDS.shape[1])[0], x.shape[1]
    is_text = torch.arange(rows) >= in_front
    near = (torch.arange(rows)[:, None] - torch.arange(rows)).abs() <= backbone.config.window
    real = torch.nn.functional.pad(MASK, (in_front, 0), value=True)
    for i, layer in enumerate(backbone.layers):
        among_text = near | backbone.config.sees_everything(i)
        allowed = torch.where(is_text[:, None], ~is_text | among_text, ~is_text)
        visible = allowed & real[:, None, None, :]
        scores = torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))
        bias = model.context_bias[i][None, :, None, None]
        scores = scores + bias * (is_text[:, None] & ~is_text)
        x = layer(x, rotation=backbone._rotation(i, places), mask=scores)
    return backbone.final_norm(x)[:, in_front:]


@pytest.mark.parametrize("with_gradients", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_cached_prefix_equals_computing_everything_under_a_mask(
    contextual, family, with_gradients
):
    model = contextual(family, context_attention="prefix", context_bias_init=-1.0)
    with torch.set_grad_enabled(with_gradients):
        context = model.prepare(vectors())
        cached, plain = model.hidden(IDS, MASK, context), uncached(model, context)
    torch.testing.assert_close(cached[MASK], plain[MASK], atol=2e-5, rtol=0)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_reach_every_parameter_that_texts_and_context_use(contextual, mode):
    bias = -1.0 if mode == "prefix" else None
    model = contextual("bert", context_attention=mode, context_bias_init=bias)
    model(IDS, MASK, model.prepare(model.read_context(IDS[:2], MASK[:2]))).square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None]
    assert without == []
    if mode == "prefix":
        assert model.context_bias.grad.abs().min() > 0


def test_gradients_of_a_prefix_equal_those_of_computing_everything(contextual):
    def gradients(compute):
        model = contextual("nomic", context_attention="prefix", context_bias_init=-1.0)
        given = vectors().requires_grad_()
        compute(model, model.prepare(given))[MASK].square().sum().backward()
        return given.grad, model.context_bias.grad

    cached = gradients(lambda model, context: model.hidden(IDS, MASK, context))
    plain = gradients(uncached)
    for one, other in zip(cached, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_a_context_per_text_equals_one_text_at_a_time(contextual, mode):
    model = contextual("nomic", context_attention=mode)
    each = torch.stack([vectors(seed) for seed in range(4)])
    together = model(IDS, MASK, model.prepare(each))
    for i in range(4):
        alone = model(IDS[i : i + 1], MASK[i : i + 1], model.prepare(each[i]))
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_text_stands_where_a_full_context_would_leave_it(contextual, mode):
    # With fewer documents, text still starts at J·T = 6 + 3 soft prompts.
    model = contextual("nomic", context_attention=mode)
    places, _ = model._places(2 + 3, 4)
    assert places.tolist() == [0, 0, 6, 7, 8, 9, 10, 11, 12]
    assert model(IDS, MASK, model.prepare(vectors(rows=2))).isfinite().all()


def test_no_text_is_longer_than_either_stage_reads():
    # Absolute positions end where their table does; rotary ones do not.
    rotary, absolute = BACKBONES["nomic"], BACKBONES["bert"]
    assert (rotary.max_positions, absolute.max_positions) == (256, 64)
    with pytest.raises(ConfigError, match=r"first stage's backbone knows only 64 .* is 64\.$"):
        ContextualConfig(first=absolute, second=rotary, max_length=65)
    with pytest.raises(ConfigError, match="65, but the backbone knows only 64"):
        ContextualConfig(first=rotary, second=absolute, max_length=65)
    config = ContextualConfig(first=absolute, second=rotary, max_length=64)
    ids = torch.ones(1, 64, dtype=torch.long)
    assert ContextualEncoder(config).read_context(ids).shape == (1, 32)


def test_ordinary_positions_put_few_documents_directly_before_the_rest(contextual):
    model = contextual("modernbert", rotary_on_context=True)
    assert model._places(2 + 3, 2)[0].tolist() == [4, 5, 6, 7, 8, 9, 10]


def test_too_many_documents_are_refused_unless_allowed(contextual):
    model = contextual()
    with pytest.raises(ContextError, match="7 vectors, but the model was made for 6"):
        model.prepare(vectors(rows=7))
    assert isinstance(model.prepare(vectors(rows=7), allow_more=True), Prepared)


def test_context_vectors_of_another_width_are_refused(contextual):
    with pytest.raises(ContextError, match="width 32"):
        contextual().prepare(torch.zeros(6, 31))


def test_a_model_without_null_context_names_the_alternative(contextual, encoder):
    with pytest.raises(ContextError, match="random"):
        contextual().prepare(None)
    with pytest.raises(ContextError, match="random"):
        encoder().encode(["cat"])


@torch.no_grad()
def test_no_context_is_the_null_vector_in_every_place(contextual):
    model = contextual(null_context=True)
    dropped = model.replace_by_null(vectors(), torch.ones(6, dtype=torch.bool))
    one, other = model(IDS, MASK, model.prepare(None)), model(IDS, MASK, model.prepare(dropped))
    torch.testing.assert_close(one, other)
    kept = model.replace_by_null(vectors(), torch.tensor([True] + [False] * 5))
    assert torch.equal(kept[1:], vectors()[1:]) and torch.equal(kept[0], model.null_embedding)


def test_several_vectors_per_document_follow_one_another(contextual):
    model = contextual(context_documents=4, tokens_per_document=3)
    read = model.read_context(IDS, MASK)
    assert read.shape == (12, 32)
    torch.testing.assert_close(read[3:6], model.read_context(IDS[1:2, :7]), atol=1e-5, rtol=0)


def test_padding_never_changes_several_vectors_per_document(encoder):
    model = encoder(context_documents=6, tokens_per_document=3)
    together = model.read_context(DOCUMENTS).vectors.view(6, 3, -1)
    for number, document in enumerate(DOCUMENTS):
        alone = model.read_context([document]).vectors
        torch.testing.assert_close(together[number], alone, atol=1e-5, rtol=0)


def test_published_spans_are_cut_from_documents_padded_to_the_longest(encoder, monkeypatch):
    model = encoder(context_documents=6, tokens_per_document=3, spans_of="padded")
    tokens = model.reader.read(DOCUMENTS, "search_document: ")
    with torch.no_grad():
        expected = model.model.read_context(*pad(tokens))
    monkeypatch.setitem(TOKENS_AT_ONCE, "cpu", 1)  # one document per batch, still padded alike
    found = model.read_context(DOCUMENTS).vectors
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    alone = model.read_context(["judge"]).vectors
    assert (alone - found[3:6]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"context_attention": "jont"}, "Did you mean 'joint'"),
        ({"spans_of": "paded"}, "Did you mean 'padded'"),
        ({"context_bias_init": -4.0}, "prefix"),
        ({"context_attention": "prefix", "pool_context": True}, "joint"),
        ({"pool_instruction": False, "colon_id": None}, "colon_id"),
        ({"context_documents": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(contextual, settings, says):
    with pytest.raises(ConfigError, match=says):
        contextual(**settings)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_order_and_batch_size_never_change_an_embedding(encoder, family, mode):
    model = encoder(family, context_attention=mode, pool_instruction=False)
    context = model.read_context(DOCUMENTS)
    together = model.encode_documents(TEXTS, context)
    alone = np.concatenate([model.encode_documents([text], context) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    backwards = model.encode_documents(TEXTS[::-1], context)[::-1]
    np.testing.assert_allclose(together, backwards, atol=1e-5)


def test_embeddings_are_unit_float32_rows_in_the_order_of_the_texts(encoder):
    model = encoder(null_context=True)
    found = model.encode(TEXTS)
    assert found.dtype == np.float32 and found.shape == (6, 32)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    raw = model.encode(TEXTS, normalise=False)
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), found, atol=1e-5)
    assert model.encode([]).shape == (0, 32)


def test_queries_and_documents_differ_by_their_prefix_alone(encoder):
    model = encoder()
    context = model.read_context(DOCUMENTS)
    queries = model.encode_queries(["tax law"], context)
    plain = model.encode(["search_query: tax law"], context=context)
    np.testing.assert_allclose(queries, plain, atol=1e-6)
    assert not np.allclose(queries, model.encode_documents(["tax law"], context), atol=1e-4)


def test_one_text_is_refused_where_a_list_is_wanted(encoder):
    model = encoder()
    for embed in (model.encode, model.encode_queries, model.encode_documents, model.read_context):
        with pytest.raises(ConfigError, match=r"one text, 'tax law'; give a list, such as"):
            embed("tax law")


def test_a_context_remembers_what_was_read(encoder):
    model = encoder()
    context = model.read_context(DOCUMENTS, source="corpus:tiny seed 1")
    assert context.vectors.shape == (6, 32) and context.vectors.dtype == torch.float32
    assert (context.prefix, context.documents) == ("search_document: ", 6)
    assert context.source == "corpus:tiny seed 1"


def test_a_context_read_by_another_model_is_refused(encoder, contextual):
    context = encoder("bert").read_context(DOCUMENTS)
    with pytest.raises(ContextError, match="another model"):
        encoder("nomic").encode(["cat"], context=context)


def test_reading_too_many_or_no_documents_is_refused(encoder):
    model = encoder()
    with pytest.raises(ContextError, match="7 documents"):
        model.read_context([*DOCUMENTS, "one more"])
    with pytest.raises(ContextError, match="no documents"):
        model.read_context([])
    more = model.read_context([*DOCUMENTS, "one more"], allow_more=True)
    assert model.encode(["cat"], context=more).shape == (1, 32)


def test_bfloat16_points_the_same_way(encoder):
    # Shaken random weights amplify rounding, so this bounds it loosely: it is about types.
    model = encoder("nomic", context_attention="prefix", null_context=True)
    exact = model.encode(TEXTS)
    model.model.to(torch.bfloat16)
    model._prepared = None
    rough = model.encode(TEXTS, context=Context.null())
    assert rough.dtype == np.float32 and (exact * rough).sum(axis=1).min() > 0.98


def test_progress_is_told_of_every_text_once(encoder, monkeypatch):
    monkeypatch.setitem(TOKENS_AT_ONCE, "cpu", 16)
    model = encoder(context_attention="prefix")
    heard = {"context": [], "documents": [], "queries": []}
    context = model.read_context(DOCUMENTS, progress=heard["context"].append)
    model.encode_documents(TEXTS, context, progress=heard["documents"].append)
    model.encode_queries(TEXTS, context, progress=heard["queries"].append)
    assert all(sum(steps) == 6 and len(steps) > 1 for steps in heard.values())


def count_preparations(model, monkeypatch):
    calls = []
    prepare = model.model.prepare
    monkeypatch.setattr(model.model, "prepare", lambda *a, **k: calls.append(1) or prepare(*a, **k))
    return calls


def test_a_context_is_prepared_once_in_a_run_of_calls(encoder, monkeypatch):
    model = encoder(null_context=True)
    calls = count_preparations(model, monkeypatch)
    context = model.read_context(DOCUMENTS)
    model.encode_documents(TEXTS, context)
    model.encode_queries(TEXTS, dataclasses.replace(context, source="the same, otherwise named"))
    assert len(calls) == 1
    model.encode(TEXTS), model.encode(TEXTS, context=Context.null())
    assert len(calls) == 2


def test_training_the_weights_is_noticed(encoder):
    model = encoder(null_context=True)
    before, fingerprint = model.encode(TEXTS), model.fingerprint
    optimiser = torch.optim.AdamW(model.model.parameters(), lr=0.1)
    model.model(IDS, MASK, model.model.prepare(None)).square().sum().backward()
    optimiser.step()
    assert not np.allclose(model.encode(TEXTS), before, atol=1e-3)
    assert model.fingerprint == fingerprint  # the first stage took no part
    with torch.no_grad():
        model.model.first_stage.backbone.words.weight.mul_(2)
    assert model.fingerprint != fingerprint
