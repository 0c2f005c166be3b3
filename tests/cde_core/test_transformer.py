"""Our one transformer against transformers' three."""

import pytest
import torch
import transformers

from cde_core.errors import ModelError
from cde_core.model.attention import KeyValues, attend_apart, attend_joined
from cde_core.model.backbones import Backbone
from cde_core.model.families import (
    KNOWN_BACKBONES,
    MODERNBERT_BASE,
    NOMIC_BERT_2048,
    backbone_config,
)
from cde_core.model.transformer import rotate, rotation_at
from cde_core.model.weight_names import export_backbone, import_backbone

from .conftest import shaken

SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
THEIRS = {
    "bert": (transformers.BertConfig, transformers.BertModel, {}),
    "nomic_bert": (transformers.NomicBertConfig, transformers.NomicBertModel, {}),
    "modernbert": (
        transformers.ModernBertConfig,
        transformers.ModernBertModel,
        {
            "local_attention": 8,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    ),
}
IDS = torch.randint(3, 100, (3, 21), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(21) < torch.tensor([[21], [13], [2]])


def theirs_and_ours(family):
    config_class, model_class, extra = THEIRS[family]
    torch.manual_seed(0)
    theirs = shaken(model_class(config_class(**SIZES, **extra)), by=0.1)
    config = backbone_config(theirs.config.to_dict())
    ours = Backbone(config).eval()
    tensors = import_backbone(theirs.state_dict(), config, ours.state_dict(), where=family)
    ours.load_state_dict(tensors)
    return theirs, ours


@pytest.mark.parametrize("family", THEIRS)
@torch.no_grad()
def test_rows_equal_those_of_transformers_with_padding_and_without(family):
    theirs, ours = theirs_and_ours(family)
    for mask in (MASK, torch.ones_like(MASK)):
        expected = theirs(input_ids=IDS, attention_mask=mask.long()).last_hidden_state
        torch.testing.assert_close(ours(IDS, mask)[mask], expected[mask], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", THEIRS)
def test_exported_weights_come_back_as_they_were(family):
    _, ours = theirs_and_ours(family)
    state = ours.state_dict()
    back = import_backbone(
        export_backbone(state, ours.config), ours.config, state, where="exported"
    )
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_both_dialects_of_nomic_configurations_mean_the_same():
    authors = {
        "model_type": "nomic_bert",
        "vocab_size": 30522,
        "pad_vocab_size_multiple": 64,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_inner": 3072,
        "n_positions": 2048,
        "rotary_emb_base": 1000,
        "layer_norm_epsilon": 1e-12,
        "activation_function": "swiglu",
    }
    assert backbone_config(authors) == NOMIC_BERT_2048
    assert backbone_config(transformers.NomicBertConfig().to_dict()) == NOMIC_BERT_2048


def test_modernbert_base_is_described_as_transformers_describes_it():
    assert backbone_config(transformers.ModernBertConfig().to_dict()) == MODERNBERT_BASE


@pytest.mark.parametrize(
    ("name", "parameters"),
    # Released models: 281,140,992 and 305,706,240 parameters for two backbones and the heads. The
    # heads of width h have first stage 2(h² + h), prompts (h² + h) + (8h² + 8h), output 2(h² + h).
    [("nomic-ai/nomic-bert-2048", 281_140_992), ("answerdotai/ModernBERT-base", 305_706_240)],
)
def test_known_backbones_have_as_many_parameters_as_the_released_models(name, parameters):
    with torch.device("meta"):
        backbone = Backbone(KNOWN_BACKBONES[name])
    heads = 13 * (768 * 768 + 768)
    assert 2 * sum(p.numel() for p in backbone.parameters()) + heads == parameters


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "roberta"},
        {"model_type": "bert", "hidden_act": "relu"},
        {"model_type": "nomic_bert", "prenorm": True},
        {"model_type": "modernbert", "norm_bias": True},
    ],
)
def test_what_we_do_not_reproduce_is_refused(settings):
    with pytest.raises(ModelError):
        backbone_config({**SIZES, **settings})


def test_rotation_depends_on_distance_only_and_position_zero_is_left_alone():
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 2, 8), torch.randn(1, 1, 2, 8)

    def score(i, j):
        at_i, at_j = (rotation_at(torch.tensor([p]), 8, 1000.0) for p in (i, j))
        return (rotate(query, at_i) * rotate(key, at_j)).sum(-1)

    torch.testing.assert_close(score(3, 5), score(40, 42))
    assert not torch.allclose(score(3, 5), score(3, 6))
    assert torch.equal(rotate(query, rotation_at(torch.tensor([0]), 8, 1000.0)), query)


@pytest.mark.parametrize("family", ["nomic_bert", "modernbert", "bert"])
@torch.no_grad()
def test_the_order_of_words_matters(family):
    _, ours = theirs_and_ours(family)
    swapped = IDS[:1].clone()
    swapped[0, [3, 9]] = swapped[0, [9, 3]]
    assert not torch.allclose(ours(IDS[:1]).mean(1), ours(swapped).mean(1), atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@torch.no_grad()
def test_attending_apart_equals_attending_joined(masked, biased):
    torch.manual_seed(0)
    queries, *own = torch.randn(3, 4, 5, 2, 16)
    before = KeyValues(*torch.randn(2, 1, 9, 2, 16))
    mask = (torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None])[:, None, None, :]
    bias = torch.tensor([-4.0, 1.5])
    arguments = (KeyValues(*own), mask if masked else None, before, bias if biased else None)
    torch.testing.assert_close(
        attend_apart(queries, *arguments), attend_joined(queries, *arguments), atol=1e-6, rtol=0
    )
