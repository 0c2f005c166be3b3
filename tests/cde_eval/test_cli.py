"""The command as a user types it: its output, what it says when it cannot, and its status."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cde_eval.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]

CORPUS = [
    {"_id": "d1", "title": "Apples", "text": "red and green fruit of a tree"},
    {"_id": "d2", "title": "", "text": "income tax is paid every year"},
    {"_id": "d3", "title": "Trains", "text": "carriages that run on rails"},
]
QUERIES = [{"_id": "q1", "text": "fruit of a tree"}, {"_id": "q2", "text": "who pays tax"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n"


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def cde_eval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command in this process: a process of its own would spend its time on imports."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["cde-eval", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        return Done(status, *capsys.readouterr())

    return run


def test_a_process_of_its_own_ends_with_one_line_and_status_2(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "cde_eval.cli", "mteb", "--model", "minlm"],
        cwd=REPOSITORY,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr.count("\n") == 1 and "minilm" in done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small BEIR folder called `things`."""
    folder = tmp_path / "things"
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    (folder / "qrels" / "test.tsv").write_text(QRELS)
    return folder


def test_a_beir_folder_is_scored_recorded_and_reported_with_no_code(cde_eval, folder, tmp_path):
    out = tmp_path / "out"
    done = cde_eval(
        "mteb", "--model", "bm25", "--data", folder, "--context", "corpus", "none",
        "--output", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "things" in done.stdout and "1.0000" in done.stdout
    assert "bm25 · corpus" in done.stdout and "bm25 · none" in done.stdout
    records = [json.loads(path.read_text()) for path in (out / "records").rglob("*.json")]
    assert {record["policy"] for record in records} == {"corpus", "none"}
    assert {record["task"] for record in records} == {"things"}

    report = cde_eval("report", "--results", out, "--out", tmp_path / "report")
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "report" / "index.html").is_file()
    assert "things" in (tmp_path / "report" / "tables" / "scores.md").read_text()


def break_nothing(folder: Path) -> None:
    pass


def break_line(folder: Path) -> None:
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d4", "text": \n')


def judge_unknown(folder: Path) -> None:
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("q1\td99\t1\n")


def empty_corpus(folder: Path) -> None:
    (folder / "corpus.jsonl").write_text("")


def no_queries(folder: Path) -> None:
    (folder / "queries.jsonl").unlink()


@pytest.mark.parametrize(
    ("damage", "arguments", "answer"),
    [
        (break_nothing, ["--model", "minlm"], "Did you mean 'minilm'?"),
        (break_nothing, ["--model", "no/such-model-anywhere"], "does not load"),
        (break_nothing, ["--tasks", "NFCorpuss"], "There is no task 'NFCorpuss'. Did you mean"),
        (break_nothing, ["--tasks", "thing"], "Did you mean 'things'"),
        (break_nothing, ["--benchmark", "MTEB(eng, v3)"], "Did you mean 'MTEB(eng, v2)'"),
        (break_nothing, ["--types", "STS"], "is of type 'sts'"),
        (break_nothing, ["--context", "corpsu"], "Did you mean 'corpus'?"),
        (break_nothing, ["--context", "file:missing.txt"], "does not exist"),
        (break_nothing, ["--context", "task:Nowhere"], "There is no task 'Nowhere'"),
        (break_nothing, ["--protocol", "papr"], "Did you mean 'paper'?"),
        (break_nothing, ["--size", "0"], "0 documents"),
        (break_nothing, ["--draws", "0"], "at least one sample"),
        (break_nothing, ["--model"], "names no model"),
        (break_nothing, ["--device", "cuda:7"], "There is no device 'cuda:7'"),
        (break_line, [], "corpus.jsonl, line 4"),
        (judge_unknown, [], "judges the document 'd99'"),
        (empty_corpus, [], "corpus.jsonl is empty"),
        (no_queries, [], "has no queries.jsonl"),
    ],
)
def test_bad_input_is_one_line_status_2_and_nothing_written(
    cde_eval, folder, tmp_path, damage, arguments, answer
):
    damage(folder)
    out = tmp_path / "out"
    model = [] if "--model" in arguments else ["--model", "bm25"]
    data = [] if "--benchmark" in arguments else ["--data", folder]
    done = cde_eval("mteb", *model, *data, *arguments, "--output", out)
    assert done.returncode == 2, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("cde-eval: ")]
    assert len(said) == 1 and answer in said[0]
    assert "Traceback" not in done.stderr
    assert not out.exists() or not list(out.rglob("*"))


def test_a_data_folder_that_is_none_is_said(cde_eval, tmp_path):
    (tmp_path / "empty").mkdir()
    for place, answer in (("nowhere", "There is no data folder"), ("empty", "holds no data set")):
        done = cde_eval("mteb", "--model", "bm25", "--data", tmp_path / place)
        assert done.returncode == 2 and answer in done.stderr


def test_the_lists_name_what_there_is(cde_eval, folder):
    tasks = cde_eval("tasks", "--data", folder)
    assert tasks.returncode == 0 and tasks.stdout.split()[:2] == ["things", "Retrieval"]
    encoders = cde_eval("encoders")
    assert {"bm25", "cde", "minilm"} <= {line.split()[0] for line in encoders.stdout.splitlines()}


def test_a_report_of_nothing_says_what_to_run(cde_eval, tmp_path):
    done = cde_eval("report", "--results", tmp_path / "none", "--out", tmp_path / "report")
    assert done.returncode == 2 and "cde-eval mteb --output" in done.stderr
    assert not (tmp_path / "report").exists()


# Fast BEIR


def test_fast_beir_makes_its_candidates_and_says_the_ceiling(cde_eval, folder, tmp_path):
    arguments = [
        "--retriever",
        "bm25",
        "--data",
        folder,
        "--depth",
        1,
        "--output",
        tmp_path / "out",
    ]
    made = cde_eval("candidates", *arguments)
    assert made.returncode == 0, made.stderr
    assert "Recall@1 1.0000" in made.stdout and made.stdout.strip().endswith("-1.run")
    done = cde_eval("beir-small", "--model", "bm25", "--context", "corpus", "none", *arguments)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["things", "1.0000", "1.0000", "1.0000"] in lines
    assert ["mean", "1.0000", "1.0000", "1.0000"] in lines


def test_fast_beir_without_a_retriever_at_hand_says_so_in_one_line(cde_eval, folder, tmp_path):
    done = cde_eval("beir-small", "--model", "bm25", "--data", folder, "--output", tmp_path / "out")
    assert done.returncode == 2 and "gtr-t5-base" in done.stderr
    assert not (tmp_path / "out").exists()


def test_two_contexts_are_compared_query_by_query(cde_eval, folder, tmp_path):
    out = tmp_path / "out"
    cde_eval(
        "mteb", "--model", "bm25", "--data", folder, "--context", "corpus", "none", "--output", out
    )
    done = cde_eval("compare", "none", "corpus", "--results", out, "--out", tmp_path / "comparison")
    assert done.returncode == 0, done.stderr
    assert "0/0/2" in done.stdout  # both find both: won, lost, tied
    assert (tmp_path / "comparison" / "differences.png").stat().st_size > 1000
