"""What a run starts from is what its recipe says."""

import dataclasses

import numpy as np
import pytest
import torch
from transformers import T5ForConditionalGeneration

from cde_core.errors import ConfigError, ModelError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.model.transformer import Layer
from cde_core.recipe import ModelConfig, ScratchConfig
from cde_core.train.starting_model import as_learner, starting_model
from tests.cde_core.conftest import BACKBONES, shaken
from tests.cde_core.t5_models import made, saved

DOCUMENTS = ["tax law court", "judge", "the king", "boat sail wind"]


@pytest.fixture
def backbone(tmp_path, tokenizer):
    """Folder of a biencoder of three layers."""
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(Biencoder(config)), reader_for(config, tokenizer))
    return str(save(encoder, tmp_path / "backbone"))


def started(backbone, **settings):
    settings = {"backbone": backbone, "context_documents": 4, "max_length": 32, **settings}
    return starting_model(ModelConfig(**settings), temperature=0.05, seed=0)


def test_a_biencoder_is_the_backbone_with_the_recipes_limits(backbone):
    model, start = load(backbone), started(backbone, kind="biencoder", prefixes=False)
    assert np.array_equal(start.encode(DOCUMENTS), model.encode(DOCUMENTS))
    assert start.model.config.logit_scale == pytest.approx(20)
    assert not start.model.config.prefixes and start.reader.max_length == 32


def test_context_vectors_start_as_the_first_encoders_own(backbone):
    start = started(backbone, prefixes=False)
    own = load(backbone).encode(DOCUMENTS, normalise=False)
    assert np.allclose(start.read_context(DOCUMENTS).vectors.numpy(), own, atol=1e-5)
    published = started(backbone, prefixes=False, residual_first_head=False)
    assert not np.allclose(published.read_context(DOCUMENTS).vectors.numpy(), own, atol=0.1)


def test_a_lower_bias_starts_nearer_to_the_backbone(backbone):
    own = load(backbone).encode(DOCUMENTS)
    cosines = []
    for bias in (0.0, -10.0, -30.0):
        start = started(backbone, prefixes=False, context_bias=bias)
        found = start.encode(DOCUMENTS, context=start.read_context(DOCUMENTS))
        cosines.append((found * own).sum(axis=1).min())
    assert cosines[0] < cosines[1] < cosines[2] and cosines[2] > 0.9999, cosines


@pytest.mark.parametrize("kind", ["biencoder", "contextual"])
def test_fewer_layers_are_the_first_ones(backbone, kind):
    whole, start = load(backbone), started(backbone, kind=kind, layers=2, first_layers=1)
    assert len(start.model.backbone.layers) == 2
    for name, tensor in start.model.backbone.state_dict().items():
        assert torch.equal(tensor, whole.model.backbone.state_dict()[name])
    if kind == "contextual":
        assert len(start.model.first_stage.backbone.layers) == 1


def test_a_trained_contextual_model_goes_on_as_it_is(backbone, tmp_path):
    trained = started(backbone, tokens_per_document=2, soft_prompts=3)
    save(trained, tmp_path / "trained")
    again = started(str(tmp_path / "trained"), context_documents=6, max_length=16)
    assert again.context_size == 6 and again.reader.max_length == 16
    assert again.model.config.soft_prompts == 3
    for name, tensor in trained.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"attention": "joint"}, 'attention is "joint", but .* was made with "prefix"'),
        ({"tokens_per_document": 3}, "tokens_per_document is 3, but .* with 2 and stays so"),
        ({"soft_prompts": 5}, "soft_prompts is 5, but .* with 3"),
        ({"context_bias": -1.5}, r"context_bias is -1\.5, but .* with -2\.0"),
        ({"residual_head": False}, "residual_head is false, but .* with true"),
        ({"residual_first_head": False}, "residual_first_head is false"),
        ({"pool_instruction": False}, "pool_instruction is false"),
        ({"null_context": False, "sequence_dropout": 0.0}, "null_context is false"),
        ({"rotary_on_context": True}, "rotary_on_context is true"),
        ({"prefixes": False}, "prefixes is false"),
        ({"positions": "rotary"}, "positions is rotary, which is for a T5"),
        ({"first_stage": "minilm"}, "model.first_stage empty"),
    ],
)
def test_a_trained_contextual_model_has_a_shape_that_no_recipe_changes(
    backbone, tmp_path, asked, answer
):
    shape = {"tokens_per_document": 2, "soft_prompts": 3, "context_bias": -2.0}
    trained = str(save(started(backbone, **shape), tmp_path / "trained"))
    assert started(trained, **shape).model.config.context_bias_init == -2  # as it is: no mistake
    with pytest.raises(ConfigError, match=answer):
        started(trained, **asked)


def test_a_model_without_a_bias_on_context_has_none_to_compare(backbone, tmp_path):
    trained = str(save(started(backbone, attention="joint"), tmp_path / "trained"))
    again = started(trained, attention="joint", context_bias=-1.5)  # which joint attention ignores
    assert again.model.config.context_bias_init is None


def test_dropout_belongs_to_the_run_and_is_not_saved(backbone, tmp_path):
    start = started(backbone, dropout=0.2)
    layers = [module for module in start.model.modules() if isinstance(module, Layer)]
    assert len(layers) == 6 and all(layer.dropout == 0.2 for layer in layers)
    save(start, tmp_path / "saved")
    assert not any(getattr(m, "dropout", 0) for m in load(tmp_path / "saved").model.modules())


def test_a_learner_shares_the_weights_and_reads_less(backbone):
    start, settings = started(backbone), ModelConfig(train_length=4)
    learner = as_learner(start, settings)
    assert learner.model is start.model
    assert len(learner.reader.read(["the cat and the dog"])[0]) == 4
    assert as_learner(start, dataclasses.replace(settings, train_length=0)) is start


def test_what_cannot_be_started_from_is_refused(backbone, tmp_path):
    with pytest.raises(ConfigError, match="has 3 layers, fewer than the 4 asked for"):
        started(backbone, layers=4)
    contextual = str(save(started(backbone), tmp_path / "contextual"))
    with pytest.raises(ConfigError, match=r"model.kind is biencoder, but .* is a contextual model"):
        started(contextual, kind="biencoder")
    with pytest.raises(ConfigError, match=r"leave model\.layers and model\.first_layers at 0"):
        started(contextual, layers=2)
    without_null = started(backbone, null_context=False, sequence_dropout=0.0)
    save(without_null, tmp_path / "without")
    with pytest.raises(ConfigError, match="has no null vector"):
        started(str(tmp_path / "without"))
    with pytest.raises(ConfigError, match="so it cannot be one of two stages"):
        started(backbone, first_stage=contextual)
    with pytest.raises(ConfigError, match="positions is rotary, which is for a T5"):
        started(backbone, positions="rotary")


@pytest.fixture
def t5(tmp_path, tokenizer):
    """Folder of a T5 with its decoder, as transformers saves it."""
    return str(saved(made(T5ForConditionalGeneration, "1.1"), tmp_path / "t5", tokenizer))


@pytest.mark.parametrize("pooling", ["mean", "max", "decoder"])
def test_a_t5_keeps_what_its_pooling_needs(t5, pooling):
    whole, start = load(t5), started(t5, kind="biencoder", pooling=pooling, prefixes=False)
    assert hasattr(start.model.backbone, "decoder") is (pooling == "decoder")
    whole.model.config = dataclasses.replace(whole.model.config, pooling=pooling)
    assert np.array_equal(start.encode(DOCUMENTS), whole.encode(DOCUMENTS))


def test_rotary_positions_reach_as_far_as_the_model_reads(t5):
    start = started(t5, kind="biencoder", positions="rotary", max_length=2048)
    config = start.model.backbone.config
    assert (config.position, config.trained_length, config.reach) == ("rotary", 512, 2048)
    assert not any("relative_bias" in name for name in start.model.state_dict())
    assert started(t5, kind="biencoder").model.backbone.config.position == "relative"


def test_a_second_run_keeps_the_rotary_positions_of_the_first(t5, tmp_path):
    first = started(t5, kind="biencoder", positions="rotary", pooling="decoder", max_length=2048)
    save(first, tmp_path / "first")
    second = started(str(tmp_path / "first"), kind="biencoder", max_length=64)
    assert second.model.config.backbone == first.model.config.backbone
    assert second.model.config.pooling == "decoder" and second.reader.max_length == 64


def test_fewer_layers_of_a_t5_are_the_first_of_both_stacks(t5):
    start = started(t5, kind="biencoder", pooling="decoder", layers=1)
    assert len(start.model.backbone.layers) == len(start.model.backbone.decoder.layers) == 1


def test_a_new_t5_reads_the_backbones_tokens_and_sentinels(t5):
    size = ScratchConfig(hidden=16, layers=1, heads=2, head_width=8, intermediate=24)
    settings = ModelConfig(
        kind="biencoder", backbone=t5, scratch=size, positions="rotary", max_length=32
    )
    one, same = (starting_model(settings, temperature=0.05, seed=3) for _ in range(2))
    assert np.array_equal(one.encode(DOCUMENTS), same.encode(DOCUMENTS))
    other = starting_model(settings, temperature=0.05, seed=4)
    assert not np.allclose(one.encode(DOCUMENTS), other.encode(DOCUMENTS))
    assert (
        one.reader.tokenizer.token_to_id("<extra_id_99>")
        == one.model.backbone.words.num_embeddings - 1
    )


def test_a_new_t5_may_begin_with_the_backbones_words(t5):
    size = ScratchConfig(hidden=8, layers=1, heads=2, head_width=4, intermediate=24, words=True)
    settings = ModelConfig(kind="biencoder", backbone=t5, scratch=size, positions="rotary")
    words = starting_model(settings, temperature=0.05, seed=3).model.backbone.words.weight
    known = load(t5).model.backbone.words.weight.detach().double().numpy()
    centred = known - known.mean(axis=0)
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    nearest = (left[:, :8] * values[:8]) @ right[:8]  # the best that eight dimensions can do
    ours = words.detach().double().numpy()[: len(known)]
    assert (ours**2).mean() == pytest.approx(1, abs=1e-5)
    scale = (nearest**2).sum() / (ours**2).sum()
    assert scale * ours @ ours.T == pytest.approx(nearest @ nearest.T, abs=1e-4 * scale)


def test_mistakes_about_t5_are_told_in_a_line(t5, backbone):
    with pytest.raises(ConfigError, match=r"positions is rotary, which is for a T5"):
        started(backbone, kind="biencoder", positions="rotary")
    with pytest.raises(ConfigError, match="pooling is decoder, but the backbone has none"):
        started(backbone, kind="biencoder", pooling="decoder")
    with pytest.raises(ConfigError, match=r"pooling is max, but a contextual model pools by mean"):
        started(backbone, pooling="max")
    with pytest.raises(ModelError, match="is a T5, which cannot be a stage of a contextual model"):
        started(t5)


def test_dropout_reaches_the_layers_of_a_t5(t5):
    start = started(t5, kind="biencoder", pooling="decoder", dropout=0.5)
    layers = [module for module in start.model.modules() if hasattr(module, "dropout")]
    assert len(layers) == 3 + 2 and {layer.dropout for layer in layers} == {0.5}
