"""Our model against numbers that transformers and a page of plain arithmetic gave.

`fixtures/make.py` computed them; unlike the authors' own numbers they are always here.
"""

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open

from cde_core.model.config import ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.families import backbone_config
from cde_core.model.weight_names import import_contextual

from .fixtures import make

CASES = [(family, case) for family, cases in make.CASES.items() for case in cases]
NULL = "weights/second_stage_model.sequence_dropout_null_embedding"


def read(family, case, **changes):
    """Our model with the weights of a fixture, and its tensors."""
    with safe_open(make.FOLDER / f"{family}.safetensors", "pt") as file:
        about = {name: json.loads(text) for name, text in file.metadata().items() if text[0] == "{"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    backbone = backbone_config(about["backbone"])
    settings = {**about["sizes"], **about["cases"][case], **changes}
    model = ContextualEncoder(ContextualConfig(first=backbone, second=backbone, **settings))
    ours = model.state_dict()
    bias = ours.pop("context_bias", None)
    if not model.config.null_context:
        tensors.pop(NULL)
    published = {
        name.removeprefix("weights/"): tensor
        for name, tensor in tensors.items()
        if name.startswith("weights/")
    }
    weights = import_contextual(published, model.config, ours, where=family)
    if bias is not None:
        weights["context_bias"] = tensors["inputs/context_bias"].expand_as(bias)
    model.load_state_dict(weights)
    return model.eval(), tensors


@torch.no_grad()
def difference(model, tensors, case):
    """Largest difference to the fixture, over context vectors and texts."""
    ids_and_mask = [
        [tensors[f"inputs/{side}_{kind}"] for kind in ("ids", "mask")]
        for side in ("context", "text")
    ]
    context = model.read_context(*ids_and_mask[0])
    prepared = model.prepare(None if model.config.null_context else context)
    found = {"context": context, "text": model(*ids_and_mask[1], prepared)}
    return max((found[k] - tensors[f"outputs/{case}/{k}"]).abs().max().item() for k in found)


@pytest.mark.parametrize(("family", "case"), CASES)
def test_outputs_equal_the_independent_computation(family, case):
    assert difference(*read(family, case), case) < 1e-5


@pytest.mark.parametrize(
    ("family", "case", "change"),
    [
        ("nomic", "as v1", {"pool_context": True}),
        ("nomic", "as v1", {"rotary_on_context": True}),
        ("nomic", "as v1", {"residual_head": True}),
        ("nomic", "residual, instruction left out", {"pool_instruction": True}),
        ("nomic", "three spans as published", {"spans_of": "text"}),
        ("nomic", "three spans of text", {"spans_of": "padded"}),
        ("nomic", "prefix attention with a bias", {"context_bias_init": None}),
        ("modernbert", "as v2 runs", {"rotary_on_context": False}),
        ("modernbert", "as v2 runs", {"context_attention": "prefix"}),
    ],
)
def test_the_numbers_notice_every_setting(family, case, change):
    assert difference(*read(family, case, **change), case) > 1e-3


def test_the_numbers_notice_a_token_type_on_context():
    model, tensors = read("nomic", "as v1")
    types = model.backbone.token_types.weight[0].detach()
    prepare = model.prepare
    model.prepare = lambda vectors: prepare(vectors + types)
    assert difference(model, tensors, "as v1") > 1e-3


def test_the_numbers_notice_text_normalised_only_once():
    model, tensors = read("modernbert", "as v2 runs")
    model.text_rows = lambda ids: model.backbone.embedding_norm(model.backbone.embed(ids))
    assert difference(model, tensors, "as v2 runs") > 1e-3


def test_the_numbers_notice_rotation_by_another_base():
    model, tensors = read("nomic", "as v1")
    model.backbone.config = dataclasses.replace(model.backbone.config, theta=10_000.0)
    assert difference(model, tensors, "as v1") > 1e-3


def test_making_the_fixtures_again_gives_the_same_numbers():
    # A newer transformers that computes otherwise shows here, and not as a mistake of ours.
    for family in make.FAMILIES:
        again, kept = make.tensors_of(family)[0], read(family, next(iter(make.CASES[family])))[1]
        for name in (n for n in kept if n.startswith(("outputs/", "inputs/"))):
            torch.testing.assert_close(again[name], kept[name], atol=1e-5, rtol=0)


def test_the_fixtures_stay_small():
    assert sum(file.stat().st_size for file in make.FOLDER.glob("*.safetensors")) < 200_000
