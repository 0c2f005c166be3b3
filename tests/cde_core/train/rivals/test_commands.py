"""`cde-train filter` and `cde-train mine` as they are called, and killed."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from cde_core import cli
from cde_core.train.data.pairs import Pairs

KILLED = """
import os, signal, sys
from cde_core import cli
from cde_core.train.rivals import consistency, each_pair
from cde_core.train.data import pairs
each_pair.PAIRS_AT_ONCE = 9
calls = [0]
def dying(function, after):
    def dies(*asked, **settings):
        calls[0] += 1
        if calls[0] > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*asked, **settings)
    return dies
if sys.argv.pop(1) == "searching":
    consistency.highest = dying(consistency.highest, 4)
else:
    pairs._Writer.add = dying(pairs._Writer.add, 110)  # after the 100 that are read at first
cli.main()
"""


@pytest.fixture
def source(tmp_path):
    """A hundred pairs of two domains; half of the queries share their words with the document."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bdfgklmnpr" for b in ("ala", "ere", "iti", "ono")]
    file = tmp_path / "some.jsonl"
    with file.open("w") as out:
        for number in range(100):
            document = rng.choice(words, 6)
            query = document[:3] if number % 2 else rng.choice(words, 3)
            row = {
                "query": " ".join(query),
                "document": " ".join(document),
                "domain": "ab"[number % 5 == 0],
            }
            out.write(json.dumps(row) + "\n")
    return file


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cde-train", *map(str, arguments)])
    cli.main()


def test_filter_writes_pairs_that_are_a_source_and_says_how_many(
    source, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "kept"
    run(monkeypatch, "filter", source, "--out", out, "--surrogate", "tfidf", "--show", "2")
    said, kept = capsys.readouterr().out, Pairs.open(out)
    lines = source.read_text().splitlines()
    rows = [(r["query"], r["document"]) for r in map(json.loads, lines)]
    places = [rows.index((pair.query, pair.document)) for pair in kept]
    assert places == sorted(places) and len(set(places)) == len(kept)
    honest = sum(place % 2 for place in places)
    assert honest >= 45 and len(kept) - honest <= 25  # of fifty each
    of_b = sum(pair.domain == "b" for pair in kept)
    table = {line.split()[0]: line.split()[1:] for line in said.splitlines()[1:4] if line}
    assert table["b"] == ["20", str(of_b), f"{of_b / 20:.1%}"]
    assert said.count("dropped from") == said.count("  preferred  ") == 2
    about = json.loads((out / "made_by.json").read_text())
    assert about["keep"] == 2 and about["surrogate"] == "tfidf"
    run(monkeypatch, "data", out)
    assert f"{len(kept):,}" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["searching", "writing"])
def test_killed_anywhere_it_leaves_nothing_half_written_and_goes_on(
    source, tmp_path, monkeypatch, where, capsys
):
    arguments = ["filter", str(source), "--surrogate", "tfidf", "--out"]
    run(monkeypatch, *arguments, tmp_path / "in-peace")
    # In a cache of its own, or it would find all that was done in peace.
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, where, *arguments, str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not out.exists()
    assert bool(list(tmp_path.glob("killed.*.unfinished"))) == (where == "writing")
    run(monkeypatch, *arguments, out)
    assert Pairs.open(out).digest == Pairs.open(tmp_path / "in-peace").digest
    assert not list(tmp_path.glob("killed.*"))


def test_mine_writes_negatives_that_a_recipe_can_use(source, tmp_path, monkeypatch, capsys):
    out = tmp_path / "mined"
    run(monkeypatch, "mine", source, "--out", out, "--model", "tfidf", "--negatives", "3")
    said, mined = capsys.readouterr().out, Pairs.open(out)
    assert "3.00" in said and f"--data.sources {out} --batches.hard-negatives 3" in said
    documents = {name: {p.document for p in mined if p.domain == name} for name in "ab"}
    for pair in mined:
        assert len(set(pair.negatives)) == 3 and pair.document not in pair.negatives
        assert set(pair.negatives) <= documents[pair.domain]


def test_a_folder_of_something_else_is_left_alone(source, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("precious")
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "filter", source, "--surrogate", "tfidf", "--out", tmp_path / "mine")
    assert stop.value.code == 2
    assert "holds something else than pairs" in capsys.readouterr().err
    assert (tmp_path / "mine" / "letters.txt").read_text() == "precious"


def test_nothing_to_read_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    with pytest.raises(SystemExit):
        run(monkeypatch, "filter", "--out", tmp_path / "out")
    assert capsys.readouterr().err.startswith("cde-train: Name what to read")
