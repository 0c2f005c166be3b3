"""The README's Python runs as it stands."""

import re
from pathlib import Path
from typing import Any

import numpy as np

import cde_core
from cde_core.text import Purpose
from cde_eval.encoders import Encoder

README = Path(__file__).resolve().parents[2] / "README.md"


def run_code(number: int) -> dict[str, Any]:
    """Execute one of the README's pieces of Python and return what it defined."""
    pieces = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(pieces[number], "README.md", "exec"), names)
    return names


def test_the_encoder_of_the_readme_is_one():
    encoder = run_code(0)["load"]("64", None)
    assert isinstance(encoder, Encoder) and encoder.settings == {"buckets": "64"}
    vectors = encoder.encode(["a b b", ""], purpose=Purpose("Retrieval", "document"))
    assert sorted(vectors[0])[-3:] == [0, 1, 2] and not np.any(vectors[1])


def test_the_search_of_the_readme_runs(minilm_folder, tmp_path, monkeypatch, capsys):
    assert minilm_folder  # over which cde-mini is kept
    monkeypatch.chdir(tmp_path)
    run_code(1)
    assert "Income tax is paid every year." in capsys.readouterr().out
    assert cde_core.Context.load("corpus.context").documents == 3
