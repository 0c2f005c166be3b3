import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cde_core import cli
from cde_core.errors import ConfigError, ModelError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save, save_difference
from cde_core.model.config import BiencoderConfig, ContextualConfig
from cde_core.model.difference import compress, restore
from cde_core.model.encode import TextEncoder
from cde_core.model.initialise import contextual_from

from .conftest import BACKBONES, shaken

TEXTS = ["the cat and the dog", "tax law court judge", "bread flour oven mill river"]
DOCUMENTS = ["tax law court", "judge", "the king", "boat sail wind"]


@pytest.fixture
def base(tmp_path, tokenizer):
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(Biencoder(config)), reader_for(config, tokenizer))
    return save(encoder, tmp_path / "base")


@pytest.fixture
def trained(base):
    """A two-stage model whose second stage moved by a matrix of rank 2 and a vector."""
    encoder = load(base)
    shape = encoder.model.config.backbone
    config = ContextualConfig(
        first=shape, second=shape, context_documents=4, soft_prompts=3, max_length=32,
        context_attention="prefix", context_bias_init=-2.0, null_context=True, prefixes=False,
        backbone_name=str(base),
    )  # fmt: skip
    model = contextual_from(encoder, encoder, config)
    torch.manual_seed(1)
    with torch.no_grad():
        for layer in model.model.backbone.layers:
            weight = layer.feed_forward.up.weight
            weight += 0.1 * torch.randn(len(weight), 2) @ torch.randn(2, weight.shape[1])
            layer.feed_forward.up.bias += 0.1
    return model


def vectors(model):
    return model.encode(TEXTS, context=model.read_context(DOCUMENTS))


def bases(base):
    return {"backbone.": str(base), "first_stage.backbone.": str(base)}


def test_a_product_of_the_right_rank_is_the_matrix_itself():
    torch.manual_seed(0)
    base = {"a": torch.randn(40, 30), "b": torch.randn(7)}
    moved = {"a": base["a"] + torch.randn(40, 3) @ torch.randn(3, 30), "b": base["b"] + 1}
    kept = compress(moved, base, matrices="rank:3")
    assert {name: tuple(t.shape) for name, t in kept.items()} == {
        "a.left": (40, 3), "a.right": (3, 30), "b": (7,)
    }  # fmt: skip
    back = restore(kept, base)
    # Entries of the two thin matrices have 8 bits, and three products of them add up.
    assert torch.allclose(back["a"], moved["a"], atol=3 * 2**-7)
    assert torch.equal(back["b"], base["b"] + 1)


def test_too_small_a_rank_loses_exactly_the_rest_of_the_spectrum():
    torch.manual_seed(0)
    base = {"a": torch.zeros(20, 10)}
    moved = {"a": torch.randn(20, 10)}
    back = restore(compress(moved, base, matrices="rank:4"), base)
    lost = torch.linalg.norm(back["a"] - moved["a"])
    rest = np.linalg.svd(moved["a"].numpy(), compute_uv=False)[4:]
    assert lost.item() == pytest.approx(np.sqrt((rest**2).sum()), rel=1e-3)


def test_bytes_are_off_by_half_a_step_at_most():
    torch.manual_seed(0)
    base = {"a": torch.randn(20, 10)}
    moved = {"a": base["a"] + torch.randn(20, 10) * torch.logspace(-6, 0, 20)[:, None]}
    moved["a"][3] = base["a"][3]  # a row that stayed
    kept = compress(moved, base, matrices="int8")
    assert kept["a.steps"].dtype == torch.int8
    step = (moved["a"] - base["a"]).abs().amax(dim=1, keepdim=True) / 127
    # Beside half a step, only what a sum with the base rounds off.
    assert ((restore(kept, base)["a"] - moved["a"]).abs() <= step * 0.501 + 1e-6).all()
    assert torch.equal(restore(kept, base)["a"][3], base["a"][3])


def test_what_did_not_change_takes_no_room_and_what_is_new_is_kept():
    base = {"same": torch.ones(4, 4)}
    kept = compress({"same": torch.ones(4, 4), "new": torch.full((2, 2), 0.5)}, base)
    assert list(kept) == ["new"]
    back = restore(kept, base)
    assert torch.equal(back["same"], base["same"]) and torch.equal(back["new"], kept["new"].float())


@pytest.mark.parametrize("matrices, cosine", [("bfloat16", 0.9999), ("int8", 0.9999),
                                              ("rank:2", 0.9999), ("rank:1", 0.9)])  # fmt: skip
def test_a_difference_loads_as_nearly_the_same_model(base, trained, tmp_path, matrices, cosine):
    folder = save_difference(trained, tmp_path / "small", bases(base), matrices=matrices)
    assert not (folder / "tokenizer.json").exists()
    names = load_file(folder / "model.safetensors")
    assert not any("first_stage.backbone" in name or "words" in name for name in names)
    found, wanted = vectors(load(folder)), vectors(trained)
    same = (found * wanted).sum(axis=1).min()
    assert same > cosine
    if matrices == "rank:1":
        assert same < 0.9999


def test_another_base_is_refused(base, trained, tmp_path, tokenizer):
    folder = save_difference(trained, tmp_path / "small", bases(base))
    other = load(base)
    shaken(other.model, by=0.1)
    save(other, base)
    with pytest.raises(ModelError, match=r"is the difference from another .*base than the one"):
        load(folder)


def test_half_a_pair_and_unknown_ways_are_said():
    with pytest.raises(ModelError, match=r"lacks 'a\.right', half of a pair"):
        restore({"a.left": torch.ones(2, 1)}, {"a": torch.ones(2, 2)})
    with pytest.raises(ConfigError, match="'rank:0'; say int8, bfloat16, or rank:R"):
        compress({}, {}, matrices="rank:0")
    with pytest.raises(ModelError, match=r"a has shape \(3, 2\), but its base has \(2, 2\)"):
        compress({"a": torch.ones(3, 2)}, {"a": torch.ones(2, 2)})


def test_the_command_takes_the_backbone_from_the_config(
    base, trained, tmp_path, monkeypatch, capsys
):
    save(trained, tmp_path / "whole")
    arguments = ["difference", tmp_path / "whole", "--out", tmp_path / "d", "--matrices", "rank:2"]
    monkeypatch.setattr("sys.argv", ["cde-train", *map(str, arguments)])
    cli.main()
    assert "MiB over" in capsys.readouterr().out
    config = json.loads((tmp_path / "d" / "config.json").read_text())
    assert {part: one["name"] for part, one in config["bases"].items()} == bases(base)
    assert (vectors(load(tmp_path / "d")) * vectors(trained)).sum(axis=1).min() > 0.9999
