"""`cde-eval cache` as a user types it."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro

from cde_core.errors import ConfigError
from cde_core.model.context_cache import ContextCache, ContextKey
from cde_eval import vector_store
from cde_eval.commands.cache import cache
from cde_eval.vector_store import VectorStore

LONG_AGO = 86_400 * 10.5  # 11 January 1970, nearly everywhere
MEGABYTE = 10**6


def embed(blocks):
    for number, texts in enumerate(blocks):
        yield number, np.ones((len(texts), 250_000), np.float32)  # a megabyte each


def space(folder: Path, model: str, texts: int) -> VectorStore:
    about = {"model": model, "revision": "1", "settings": "{}"}
    store = VectorStore(folder / "vectors", about)
    store.vectors_of([str(number) for number in range(texts)], embed)
    return store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Vectors of an old model (3 MB) and a new one (2 MB), and an old context of 1 MB."""
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path))
    key = ContextKey(
        fingerprint="fe" * 8,
        reading="0" * 16,
        documents="d0" * 32,
        prefix="",
        dtype="float32",
        tokens_per_document=1,
    )
    ContextCache(tmp_path / "contexts").read(key, lambda: torch.ones(1, 250_000))
    space(tmp_path, "org/old", 3)
    age(tmp_path, LONG_AGO)
    space(tmp_path, "org/new", 2)
    vector_store._held.cache_clear()
    return tmp_path


def age(folder: Path, time: float) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (time, time))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def typed(*arguments: str) -> str:
        tyro.cli(cache, args=arguments)
        return capsys.readouterr().out

    return typed


def left(folder: Path) -> list[str]:
    """What of the three is there: the sizes of its files tell."""
    sizes = {1: "context", 2: "new", 3: "old"}
    files = [*folder.rglob("*.npy"), *folder.rglob("*.safetensors")]
    return sorted(sizes[path.stat().st_size // MEGABYTE] for path in files)


def test_list_shows_every_entry_and_the_sum_of_each_kind(folder, run):
    lines = run("list").splitlines()
    assert lines[0].split() == ["kind", "what", "MB", "last", "used"]
    old, new, context = lines[2:5]
    assert old.split()[0] == "vectors" and "org/old@1 · 3 texts × 250000" in old
    assert old.split()[-2:] == ["3.0", "1970-01-11"]
    assert "org/new@1 · 2 texts × 250000" in new
    assert context.split()[0] == "contexts" and "1 documents d0d0d0d0 × 250000" in context
    assert lines[5:] == [
        "",
        "vectors: 2, 5.0 MB",
        "contexts: 1, 1.0 MB",
        f"all: 3, 6.0 MB in {folder}",
    ]


def test_list_can_be_of_some_kinds_and_of_a_model(folder, run):
    assert "all: 1, 1.0 MB" in run("list", "--kind", "contexts", "train")
    assert "all: 1, 3.0 MB" in run("list", "--model", "OLD")
    assert run("list", "--kind", "corpora") == f"Nothing of the kind is in {folder}.\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--all"], []),
        (["--kind", "contexts"], ["new", "old"]),
        (["--kind", "contexts", "vectors"], []),
        (["--model", "org/new"], ["context", "old"]),
        (["--model", "org"], ["context"]),
        (["--older-than", "1"], ["new"]),
        (["--older-than", "1", "--kind", "vectors"], ["context", "new"]),
        (["--older-than", "1000000"], ["context", "new", "old"]),
        (["--keep-under", "0"], []),
        (["--keep-under", "0.004"], ["context", "new"]),  # the old vectors are older by path
        (["--keep-under", "0.0029", "--kind", "vectors"], ["context", "new"]),
        (["--keep-under", "0.01"], ["context", "new", "old"]),
        (["--keep-under", "0", "--older-than", "1"], ["new"]),
        (["--keep-under", "0", "--model", "new", "--older-than", "1"], ["context", "new", "old"]),
    ],
)
def test_prune_deletes_what_all_options_agree_on(folder, run, arguments, expected):
    os.utime(next(folder.rglob("*.safetensors")), (LONG_AGO + 1,) * 2)
    said = run("prune", *arguments, "--dry-run")
    assert left(folder) == ["context", "new", "old"]
    assert run("prune", *arguments).replace("deleted", "would be deleted") == said
    assert left(folder) == expected


def test_prune_says_what_it_freed(folder, run):
    lines = run("prune", "--older-than", "1").splitlines()
    assert "org/old" in lines[2] and "fefefefe" in lines[3]
    assert lines[-1] == f"all: 2, 4.0 MB deleted from {folder}"
    assert run("prune", "--older-than", "1") == f"Nothing deleted from {folder}.\n"


def test_what_is_in_use_is_kept_and_said(folder, run):
    space(folder, "org/old", 1)
    said = run("prune", "--all")
    assert said.startswith("Kept, in use: vectors, org/old@1 · 3 texts")
    assert "all: 2, 3.0 MB deleted from" in said and left(folder) == ["old"]
    vector_store._held.cache_clear()


def test_leftovers_of_killed_runs_are_shown_and_go_with_any_prune(folder, run):
    old, young = folder / "documentation" / "tmpold.part", folder / "documentation" / "tmpnew.part"
    old.parent.mkdir()
    for path in (old, young):
        path.write_text("half")
    os.utime(old, (LONG_AGO, LONG_AGO))
    assert "leftovers: 1, 0.0 MB" in run("list") and "tmpold.part" in run("list")
    assert "leftovers" in run("prune", "--model", "neither", "--dry-run") and old.exists()
    assert "leftovers" in run("prune", "--model", "neither") and not old.exists()
    assert young.exists() and left(folder) == ["context", "new", "old"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["prune"], "--all"),
        (["prune", "--dry-run"], "not told what to delete"),
        (["prune", "--model", ""], "not told what to delete"),
        (["prune", "--older-than", "-1"], "--older-than is -1"),
        (["prune", "--keep-under", "nan"], "--keep-under is nan"),
        (["list", "--older-than", "3"], "--older-than is for prune"),
        (["list", "--all"], "--all is for prune"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(folder, run, arguments, error):
    with pytest.raises(ConfigError, match=error) as raised:
        run(*arguments)
    assert "\n" not in str(raised.value)
    assert left(folder) == ["context", "new", "old"]


def test_help_explains_every_option(run, capsys):
    with pytest.raises(SystemExit):
        run("--help")
    assert "list,prune" in (said := capsys.readouterr().out) and "--keep-under" in said
