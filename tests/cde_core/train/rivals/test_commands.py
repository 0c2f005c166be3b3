"""`cde-train filter`, `mine` and `score` as they are called, and killed."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from cde_core import cli
from cde_core.recipe_config import LossConfig
from cde_core.train.data.pairs import Pairs
from cde_core.train.preparation import require_what_is_learnt
from cde_core.train.rivals import teachers
from cde_core.train.rivals.cross_encoder import CrossEncoder, load_cross_encoder

KILLED = """
import os, signal, sys
from cde_core import cli
from cde_core.train.rivals import consistency, cross_encoder, each_pair, teachers
from cde_core.train.data import pairs
each_pair.PAIRS_AT_ONCE = teachers.PAIRS_AT_ONCE = 9
calls = [0]
def dying(function, after):
    def dies(*asked, **settings):
        calls[0] += 1
        if calls[0] > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*asked, **settings)
    return dies
where = sys.argv.pop(1)
if where == "searching":
    consistency.highest = dying(consistency.highest, 4)
elif where == "reading":
    cross_encoder.CrossEncoder._logits = dying(cross_encoder.CrossEncoder._logits, 4)
else:
    pairs._Writer.add = dying(pairs._Writer.add, 110)  # after the 100 that are read at first
cli.main()
"""


SYLLABLES = [f"{a}{b}" for a in "bdfgklmnpr" for b in ("ala", "ere", "iti", "ono")]


@pytest.fixture
def source(tmp_path):
    """A hundred pairs of two domains; half of the queries share their words with the document."""
    rng = np.random.default_rng(0)
    words = SYLLABLES
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


def die(where, arguments, out, monkeypatch):
    """Run a command in a process that kills itself, in a cache of its own.

    In this one's it would find all that was done in peace.
    """
    monkeypatch.setenv("CDE_EVAL_CACHE", str(out.with_name("cache")))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, where, *arguments, str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not out.exists()


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
    out = tmp_path / "killed"
    die(where, arguments, out, monkeypatch)
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


MISTAKES = [
    ("filter --surrogate tfidf --out .", "holds something else than pairs"),
    ("mine --model tfidf --out .", "holds something else than pairs"),
    ("score --teacher tfidf --out .", "holds something else than pairs"),
    ("filter --device foo --out new", "device is 'foo'; it can be auto, cpu, cuda"),
    ("score --teacher minilm --device cuda:999 --out new", "cuda:999', which cannot be used"),
    ("filter --max-length -3 --out new", "--max-length is -3; the least that works is 0."),
    ("mine --choose drawn --seed -1 --out new", "--seed is -1; the least that works is 0."),
    ("filter --show -1 --out new", "--show is -1; the least that works is 0."),
]


@pytest.mark.parametrize(("arguments", "answer"), MISTAKES)
def test_mistakes_are_told_before_the_pairs_are_read(
    tmp_path, monkeypatch, capsys, arguments, answer
):
    (tmp_path / "letters.txt").write_text("precious")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, *arguments.split(), "--only-domains", "--", "missing.jsonl")
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert answer in said and said.count("\n") == 1


def test_nothing_to_read_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    with pytest.raises(SystemExit):
        run(monkeypatch, "filter", "--out", tmp_path / "out")
    assert capsys.readouterr().err.startswith("cde-train: Name what to read")


@pytest.fixture
def mined(source, tmp_path, monkeypatch, capsys):
    out = tmp_path / "mined"
    run(monkeypatch, "mine", source, "--out", out, "--model", "tfidf", "--negatives", "2")
    capsys.readouterr()
    return out


def test_score_writes_a_cross_encoders_logits_and_goes_on_where_it_was_killed(
    mined, classifier, tmp_path, monkeypatch, capsys
):
    folder, out = classifier(SYLLABLES), tmp_path / "scored"
    arguments = ["score", str(mined), "--teacher", f"cross-encoder:{folder}", "--out"]
    run(monkeypatch, *arguments, out)
    said, scored = capsys.readouterr().out, Pairs.open(out)
    encoder = load_cross_encoder(str(folder), device="cpu")
    for pair in [*scored][:20]:
        texts = [pair.document, *pair.negatives]
        expected = encoder.score([pair.query] * 3, texts)
        assert pair.scores == pytest.approx(expected, abs=1e-5)
    means = (scored.teacher_of_documents.mean(), scored.teacher_of_negatives.mean())
    (line,) = (line.split() for line in said.splitlines() if line.startswith("all domains"))
    assert line[2:5] == ["100", *(f"{mean:.3f}" for mean in means)]
    assert said.splitlines()[-1] == (
        f"Train on them with: --data.sources {out} --loss.objective distillation "
        "--batches.hard-negatives 2 --loss.teacher-temperature 1"
    )
    about = json.loads((out / "made_by.json").read_text())
    assert about["fingerprint"] == encoder.fingerprint and about["command"] == "cde-train score"
    require_what_is_learnt(LossConfig(objective="distillation"), scored)

    monkeypatch.setattr(teachers, "PAIRS_AT_ONCE", 9)  # cut as in the process that dies
    die("reading", arguments, tmp_path / "killed", monkeypatch)
    reads, logits = [], CrossEncoder._logits

    def counted(encoder, pairs, progress):
        reads.extend(pairs)
        return logits(encoder, pairs, progress)

    monkeypatch.setattr(CrossEncoder, "_logits", counted)
    run(monkeypatch, *arguments, tmp_path / "killed")
    assert len(reads) <= 300 - 4 * 9  # what four reads had found was recorded
    again = Pairs.open(tmp_path / "killed")
    assert again.teacher_of_negatives == pytest.approx(scored.teacher_of_negatives, abs=1e-5)
    assert [pair.negatives for pair in again] == [pair.negatives for pair in scored]


def test_scored_apart_pairs_train_the_objectives_of_single_pairs(
    mined, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "apart"
    run(monkeypatch, "score", mined, "--out", out, "--teacher", "tfidf", "--apart")
    said, apart = capsys.readouterr().out, Pairs.open(out)
    assert len(apart) == 300 and f"--data.sources {out} --loss.objective cosent" in said
    assert [pair.label for pair in apart] == ["1", "0", "0"] * 100
    assert np.all(np.abs(apart.scores) <= 1 + 1e-6) and np.ptp(apart.scores) > 0.1
    for objective in ("cosent", "classification"):
        require_what_is_learnt(LossConfig(objective=objective), apart)


def test_pairs_without_negatives_have_scores_that_distillation_cannot_use(
    source, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "scored"
    run(monkeypatch, "score", source, "--out", out, "--teacher", "tfidf")
    said = capsys.readouterr().out
    assert "Distillation needs negatives, and no pair has any; `cde-train mine`" in said
    assert {len(pair.scores) for pair in Pairs.open(out)} == {1}


def test_a_teacher_of_several_labels_is_refused_in_one_line(
    source, classifier, tmp_path, monkeypatch, capsys
):
    folder = classifier(SYLLABLES, labels=3)
    with pytest.raises(SystemExit) as stop:
        run(
            *(monkeypatch, "score", source, "--out", tmp_path / "out"),
            *("--teacher", f"cross-encoder:{folder}"),
        )
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "gives 3 numbers for a pair" in said
    assert not (tmp_path / "out").exists()
