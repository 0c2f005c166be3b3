"""The README's Python runs as it stands."""

import re
from pathlib import Path

import cde_core

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_code_of_the_readme_runs(minilm_folder, tmp_path, monkeypatch, capsys):
    assert minilm_folder  # over which cde-mini is kept
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert "Income tax is paid every year." in capsys.readouterr().out
    assert cde_core.Context.load("corpus.context").documents == 3
