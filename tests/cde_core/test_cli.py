import subprocess
import sys

import numpy as np
import pytest
import torch

import cde_core
from cde_core import cli
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import load, reader_for, save
from cde_core.model.config import BiencoderConfig
from cde_core.model.encode import TextEncoder

from .conftest import BACKBONES, shaken

TEXTS = ["the cat and the dog", "tax law court judge", "bread flour oven mill river"]
DOCUMENTS = ["tax law court", "judge", "the king", "boat sail wind"]


@pytest.fixture
def backbone(tmp_path, tokenizer):
    config = BiencoderConfig(backbone=BACKBONES["bert"], max_length=32)
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(Biencoder(config)), reader_for(config, tokenizer))
    return save(encoder, tmp_path / "backbone")


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cde-train", *map(str, arguments)])
    cli.main()


def test_init_makes_a_model_that_loads_and_starts_near_its_backbone(
    backbone, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "model"
    run(monkeypatch, "init", backbone, "--out", out, "--context-documents", 4, "--no-prefixes")
    assert "parameters, untrained" in capsys.readouterr().out
    model = load(out)
    assert model.context_size == 4 and model.model.config.context_attention == "prefix"
    assert model.model.config.context_bias_init == -6
    found = model.encode(TEXTS, context=model.read_context(DOCUMENTS))
    assert (found * load(backbone).encode(TEXTS)).sum(axis=1).min() > 0.95


def test_init_makes_the_same_model_from_the_same_seed(backbone, tmp_path, monkeypatch):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(monkeypatch, "init", backbone, "--out", tmp_path / name, "--attention", "joint",
            "--no-residual-head", "--context-documents", 4, "--seed", seed)  # fmt: skip
    a, b, c = (load(tmp_path / name).encode(TEXTS) for name in "abc")
    assert np.array_equal(a, b) and not np.allclose(a, c)


def test_the_two_stages_share_no_weights(backbone, tmp_path, monkeypatch):
    run(monkeypatch, "init", backbone, "--out", tmp_path / "m", "--context-documents", 4)
    model = load(tmp_path / "m").model
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(set(pointers)) == len(pointers)


def test_a_mistake_is_one_line_and_status_2(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "init", tmp_path / "nowhere", "--out", tmp_path)
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("cde-train: There is no model folder") and message.count("\n") == 1


def test_importing_the_package_and_its_command_does_not_import_torch():
    code = "import cde_core, cde_core.cli, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_are_there():
    assert all(getattr(cde_core, name) is not None for name in cde_core.__all__)
