"""T5 equals transformers' T5 where it can; what is ours alone is checked by hand."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from transformers import T5EncoderModel, T5ForConditionalGeneration, T5Model

import cde_core
from cde_core.errors import ConfigError, ModelError
from cde_core.model import flash
from cde_core.model.biencoder import Biencoder
from cde_core.model.config import BiencoderConfig, from_dict, to_dict
from cde_core.model.reshape import with_positions
from cde_core.model.t5 import T5, start_afresh
from cde_core.model.t5_config import T5Config, as_held, read_t5_config, with_rotary
from cde_core.model.t5_layers import Attention
from cde_core.model.t5_positions import rotation
from tests.cde_core.conftest import shaken
from tests.cde_core.t5_models import IDS, MASK, VERSIONS, made, saved, tiny

TEXTS = ["tax law court", "the king of a town", "boat sail wind rain sun moon", "judge"]
SMALL = T5Config(
    vocabulary=64,
    hidden=32,
    layers=2,
    decoder_layers=2,
    heads=4,
    head_width=8,
    intermediate=48,
    activation="geglu",
)


def t5(**settings):
    torch.manual_seed(0)
    model = T5(dataclasses.replace(SMALL, **settings))
    start_afresh(model)
    return model.eval()


@pytest.fixture
def loaded(tmp_path, tokenizer):
    """Save a model of transformers and load it as ours: `loaded(model)`."""

    def load(model):
        return cde_core.load(saved(model, tmp_path / "published", tokenizer), device="cpu")

    return load


@pytest.mark.parametrize("version", VERSIONS)
@torch.no_grad()
def test_encoder_rows_equal_those_of_transformers(version, loaded):
    theirs = made(T5EncoderModel, version)
    ours = loaded(theirs).model.backbone
    expected = theirs(input_ids=IDS, attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(ours(IDS, MASK)[MASK], expected[MASK], atol=1e-5, rtol=1e-5)
    assert not hasattr(ours, "decoder")


@pytest.mark.parametrize("version", VERSIONS)
@torch.no_grad()
def test_decoder_rows_equal_those_of_transformers(version, loaded):
    theirs = made(T5Model, version)
    ours = loaded(theirs).model.backbone
    words = torch.tensor([[0, 6, 9, 12, 3, 4, 17, 30, 31], [0, 2, 2, 44, 45, 7, 8, 9, 10]])
    expected = theirs(input_ids=IDS, attention_mask=MASK, decoder_input_ids=words)
    rows = ours.decode(words, ours(IDS, MASK), MASK)
    torch.testing.assert_close(rows, expected.last_hidden_state, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_decoder_pools_by_its_first_row(loaded):
    theirs = made(T5Model, "1.1", decoder_start_token_id=3)
    ours = loaded(theirs).model.backbone
    start = torch.full((2, 1), 3)
    expected = theirs(input_ids=IDS, attention_mask=MASK, decoder_input_ids=start)
    pooled = Biencoder(BiencoderConfig(backbone=ours.config, pooling="decoder"))
    pooled.backbone = ours
    vectors = expected.last_hidden_state[:, 0]
    torch.testing.assert_close(pooled(IDS, MASK), vectors, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("version", VERSIONS)
@torch.no_grad()
def test_word_scores_equal_those_of_transformers(version, loaded):
    theirs = made(T5ForConditionalGeneration, version)
    ours = loaded(theirs).model.backbone
    words = torch.tensor([[0, 6, 9], [0, 2, 2]])
    expected = theirs(input_ids=IDS, attention_mask=MASK, decoder_input_ids=words).logits
    scores = ours.word_scores(ours.decode(words, ours(IDS, MASK), MASK))
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)


def test_a_head_of_its_own_is_loaded_where_the_file_has_one(tmp_path, tokenizer):
    from safetensors.torch import load_file, save_file

    folder = saved(made(T5ForConditionalGeneration, "1.1"), tmp_path / "published", tokenizer)
    weights = load_file(folder / "model.safetensors")
    head = torch.randn(64, 32)
    save_file({**weights, "lm_head.weight": head}, folder / "model.safetensors")
    config = (folder / "config.json").read_text().replace("{", '{"tie_word_embeddings": false,', 1)
    (folder / "config.json").write_text(config.replace('"tie_word_embeddings": true,', ""))
    ours = cde_core.load(folder, device="cpu").model.backbone
    assert torch.equal(ours.output.weight, head)
    rows = torch.randn(3, 32)
    torch.testing.assert_close(ours.word_scores(rows), rows @ head.T)


def test_what_is_not_reproduced_is_refused(tmp_path, tokenizer):
    theirs = made(T5Model, "1.0")
    folder = saved(theirs, tmp_path / "published", tokenizer)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"relu"', '"gated-tanh"'))
    with pytest.raises(ModelError, match="feed_forward_proj = 'gated-tanh'; supported are relu"):
        cde_core.load(folder)


@pytest.mark.parametrize("position", ["relative", "rotary"])
@torch.no_grad()
def test_padding_changes_nothing(position):
    model = t5(position=position)
    alone = model(IDS[1:, :4])
    torch.testing.assert_close(model(IDS, MASK)[1, :4], alone[0], atol=1e-5, rtol=1e-4)
    pooled = model.pooled(model(IDS, MASK), MASK)
    torch.testing.assert_close(pooled[1], model.pooled(alone)[0], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_the_decoder_does_not_see_what_comes_after():
    for position in ("relative", "rotary"):
        model = t5(position=position)
        text, words = model(IDS), torch.tensor([[0, 6, 9, 12], [0, 2, 2, 44]])
        changed = words.clone()
        changed[:, 2:] = 50
        before, after = model.decode(words, text), model.decode(changed, text)
        assert torch.equal(before[:, :2], after[:, :2])
        assert not torch.allclose(before[:, 2:], after[:, 2:])


def scores(x, turned):
    """Scores (heads, S, S) of rows x (S, h) on one another, in an attention of random weights."""
    torch.manual_seed(0)
    attention = Attention(SMALL)
    seen = []

    def spy(queries, own, **_):
        seen.append(torch.einsum("bqhw,bkhw->bhqk", queries, own.keys)[0])
        return queries

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cde_core.model.t5_layers.attend", spy)
        attention(x[None], x[None], seen=None, rotation=turned)
    return seen[0]


@torch.no_grad()
def test_rotary_scores_depend_on_relative_positions_alone():
    config = with_rotary(SMALL, reach=2048)
    device, same = torch.device("cpu"), torch.randn(32).expand(40, 32)
    found = scores(
        same, rotation(config, 40, device)
    )  # equal rows: positions alone tell them apart
    for head in found:
        for offset in (-30, -7, 0, 7, 30):
            diagonal = head.diagonal(offset)
            torch.testing.assert_close(
                diagonal, diagonal[:1].expand_as(diagonal), atol=1e-3, rtol=1e-4
            )
    assert not torch.allclose(found.diagonal(3, 1, 2)[:, 0], found.diagonal(0, 1, 2)[:, 0])


@torch.no_grad()
def test_scores_are_not_divided_by_the_root_of_the_width():
    x = torch.randn(5, 32)
    torch.manual_seed(0)
    attention = Attention(SMALL)
    queries = attention.query(x).view(5, 4, 8)
    keys = attention.key_value(x)[:, :32].view(5, 4, 8)
    by_hand = torch.einsum("qhw,khw->hqk", queries, keys).softmax(-1)
    # What the kernel makes of our queries, dividing by the root of 8 as it does.
    torch.testing.assert_close((scores(x, None) / math.sqrt(8)).softmax(-1), by_hand)


def test_theta_is_raised_by_the_formula():
    # 4 times as long, heads of 64: 10,000 · 4^(64 / 62) = 41,829.3
    base = dataclasses.replace(SMALL, head_width=64)
    assert with_rotary(base, reach=2048).stretched_theta == pytest.approx(41_829.36, rel=1e-6)
    assert with_rotary(base, reach=512).stretched_theta == 10_000
    assert with_rotary(base, reach=64).stretched_theta == 10_000


def test_stretching_slows_the_slowest_wave_by_the_factor_and_leaves_the_fastest():
    config = dataclasses.replace(SMALL, head_width=64)

    def angles(reach):
        turned = rotation(with_rotary(config, reach=reach), 2, torch.device("cpu"))
        return torch.atan2(turned.sin, turned.cos)[1, 0, :32]  # of position 1: the frequencies

    near, far = angles(512), angles(2048)
    assert near[0].item() == far[0].item() == pytest.approx(1)
    assert (near[-1] / far[-1]).item() == pytest.approx(4, rel=1e-4)


def test_stretching_twice_is_stretching_once():
    config = dataclasses.replace(SMALL, head_width=64)
    twice = with_rotary(with_rotary(config, reach=1024), reach=2048)
    assert twice == with_rotary(config, reach=2048)
    assert with_rotary(twice, reach=512) == twice


@torch.no_grad()
def test_a_text_longer_than_any_in_training_is_read():
    model = t5(position="rotary", trained_length=16, reach=64)
    ids = torch.randint(4, 60, (1, 100), generator=torch.Generator().manual_seed(0))
    rows = model(ids)
    assert rows.shape == (1, 100, 32) and rows.isfinite().all()
    assert not torch.allclose(rows, t5(position="rotary", trained_length=16)(ids), atol=1e-3)


@torch.no_grad()
def test_mixed_precision_gives_nearly_the_same_with_either_positions():
    for position in ("relative", "rotary"):
        model = t5(position=position)
        exact = model.pooled(model(IDS, MASK), MASK)
        with torch.autocast("cpu", torch.bfloat16):
            rough = model.pooled(model(IDS, MASK), MASK)
        assert torch.cosine_similarity(exact, rough.float()).min() > 0.99


@torch.no_grad()
def test_the_flash_kernel_is_used_with_rotary_positions_and_never_with_a_bias(monkeypatch):
    calls = []

    def kernel(queries, keys, values, asking, seen, **options):
        calls.append(len(queries))
        found = torch.zeros_like(queries)
        for start, end in zip(seen.starts, seen.starts[1:], strict=False):
            part = [x[start:end].transpose(0, 1)[None] for x in (queries, keys, values)]
            rows = torch.nn.functional.scaled_dot_product_attention(*part)
            found[start:end] = rows[0].transpose(0, 1)
        return found

    expected = {p: t5(position=p)(IDS, MASK)[MASK] for p in ("relative", "rotary")}
    monkeypatch.setattr(flash, "_kernel", kernel)
    monkeypatch.setattr(flash, "fits", lambda x, *, head_width, in_front: True)
    for position, rows in expected.items():
        torch.testing.assert_close(
            t5(position=position)(IDS, MASK)[MASK], rows, atol=1e-5, rtol=1e-4
        )
    assert calls == [12, 12]  # the real rows, in each of the two layers, of the rotary one alone


@pytest.mark.parametrize("pooling", ["mean", "decoder", "cls"])
def test_a_saved_model_is_the_same_when_it_is_loaded_again(pooling, loaded, tmp_path):
    encoder = with_positions(loaded(made(T5Model, "1.1")), "rotary", reach=128)
    encoder.model.config = dataclasses.replace(encoder.model.config, pooling=pooling)
    again = cde_core.load(cde_core.save(encoder, tmp_path / "ours"), device="cpu")
    assert again.model.config == encoder.model.config
    assert again.model.config.backbone.position == "rotary"
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert again.encode_queries(TEXTS).shape == (4, 32)


def test_a_config_comes_back_from_json():
    config = BiencoderConfig(backbone=with_rotary(SMALL, reach=99), pooling="decoder")
    assert from_dict(BiencoderConfig, to_dict(config)) == config


def test_a_decoder_that_is_not_there_cannot_pool():
    with pytest.raises(ConfigError, match="pooling is decoder, but the backbone has none"):
        BiencoderConfig(backbone=dataclasses.replace(SMALL, decoder_layers=0), pooling="decoder")


def test_new_weights_are_as_large_as_those_that_transformers_begins_with():
    from transformers import T5Config as Theirs

    shape = {"vocab_size": 500, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1}
    torch.manual_seed(0)
    theirs = T5Model(Theirs(**shape, num_heads=4, feed_forward_proj="gated-gelu")).encoder
    ours = t5(vocabulary=500, hidden=64, head_width=16, intermediate=128, layers=1)
    layer, block = ours.layers[0], theirs.block[0].layer
    query, key = block[0].SelfAttention.q, block[0].SelfAttention.k
    for mine, other in (
        (ours.words, theirs.embed_tokens),
        (layer.attention.query, query),
        (layer.attention.key_value, key),
        (layer.attention.out, block[0].SelfAttention.o),
        (layer.feed_forward.up, block[1].DenseReluDense.wi_0),
        (layer.feed_forward.down, block[1].DenseReluDense.wo),
    ):
        assert mine.weight.std().item() == pytest.approx(other.weight.std().item(), rel=0.05)


def test_gradients_reach_every_part_that_pools():
    model = Biencoder(BiencoderConfig(backbone=SMALL, pooling="decoder"))
    shaken(model)
    model(IDS, MASK).square().sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    # With one row to see, a decoder's own attention has nothing to choose.
    assert without == {
        "backbone.decoder.relative_bias.weight",
        *(f"backbone.decoder.layers.{i}.attention.query.weight" for i in (0, 1)),
    }


def test_transformers_own_config_is_read_whole():
    config = read_t5_config(tiny("1.1").to_dict() | {"tie_word_embeddings": False})
    assert (config.buckets, config.farthest, config.head_width) == (8, 20, 6)
    assert not config.scaled_output and config.own_output and config.decoder_layers == 2
    assert not as_held(config, ["decoder.block.0.layer.0.layer_norm.weight"]).own_output
