"""What a run starts from is what its recipe says."""

import dataclasses

import numpy as np
import pytest
import torch

from cde_core.errors import ConfigError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder
from cde_core.model.transformer import Layer
from cde_core.recipe import ModelConfig
from cde_core.train.starting_model import as_learner, starting_model
from tests.cde_core.conftest import BACKBONES, shaken

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
