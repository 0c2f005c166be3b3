import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import mteb
import pytest
from mteb.abstasks import AbsTask

from cde_core.errors import ConfigError
from cde_eval.candidates import Candidates
from cde_eval.contexts import ContextPolicy
from cde_eval.plan import Evaluation, Failure
from cde_eval.rescoring import RULES, rescored
from cde_eval.results import RunRecord, read_records
from cde_eval.run import evaluate
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.trec_run import CandidateLists, RunHeader
from tests.cde_eval.test_mteb_encoder import (
    classification_task,
    clustering_task,
    search_task,
    sts_task,
)
from tests.cde_eval.tiny_encoder import TinyEncoder

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = (ContextPolicy("corpus"),)


def source(make: Callable[[], AbsTask]) -> TaskSource:
    return TaskSource(make().metadata.name, "built-in", make)


SOURCES = tuple(map(source, (search_task, classification_task, clustering_task, sts_task)))


def header(task: str) -> RunHeader:
    return RunHeader(
        retriever="tests/first",
        retriever_revision="1",
        settings={},
        task=task,
        split="test",
        subset="default",
        data_revision="1",
        data_hash="",
        depth=1,
        excludes_own_id=False,
    )


def records_of(plan: Evaluation, output: Path) -> list[RunRecord]:
    outcomes = list(evaluate(plan, output))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    return [outcome for outcome in outcomes if isinstance(outcome, RunRecord)]


def files(folder: Path) -> dict[str, object]:
    """Every file with its content, less what tells the time, and less what nobody reads."""
    found = {}
    for path in sorted(p for p in folder.rglob("[!.]*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".csv":
            found[name] = path.read_text()
            continue
        content = json.loads(path.read_text())
        for key in ("seconds", "texts_per_second", "gflops", "evaluation_time", "date",
                    "evaluation_phases", "commit"):  # fmt: skip
            content.pop(key, None)
        found[name] = content
    return found


# Records


def test_a_record_says_what_the_score_depends_on(tmp_path, use):
    use(tiny=TinyEncoder(context_size=3))
    plan = Evaluation(models=("tiny",), tasks=SOURCES[:1], policies=CORPUS)
    (record,) = records_of(plan, tmp_path)
    assert (record.model_name, record.task, record.policy) == ("tests/tiny", "Tiny", "corpus")
    assert (record.protocol, record.context_size, record.draw) == ("paper", 3, 0)
    context = record.contexts["test/default"]
    assert context["source"] == "corpus:Tiny/test" and context["documents"] == 3
    assert len(context["sha256"]) == 64
    assert record.versions["mteb"] == mteb.__version__
    assert record.texts == 2 + 5  # queries and documents
    assert read_records(tmp_path) == [record]


def test_more_documents_than_there_are_is_allowed_and_said(tmp_path, use):
    use(tiny=TinyEncoder())
    plan = Evaluation(
        models=("tiny",), tasks=SOURCES[:1], policies=(ContextPolicy("corpus", size=9),)
    )
    (record,) = records_of(plan, tmp_path)
    context = record.contexts["test/default"]
    assert (context["documents"], context["pool"], context["with_replacement"]) == (9, 5, True)


def test_mteb_reads_its_own_copy_of_every_result(tmp_path, use):
    use(tiny=TinyEncoder())
    plan = Evaluation(models=("tiny",), tasks=SOURCES, policies=CORPUS, draws=2)
    mine = records_of(plan, tmp_path)
    loaded = mteb.ResultCache(tmp_path / "mteb").load_results(load_experiments="match_name")
    theirs = {
        (result.task_name, result.get_score())
        for model in loaded.model_results
        for result in model.task_results
    }
    # mteb's files keep six decimals.
    assert {(r.task, round(s.main or 0, 6)) for r in mine for s in r.scores} == theirs
    assert len(loaded.model_results) == 2  # one per draw


def test_a_context_free_model_runs_once_whatever_the_policies_and_draws(tmp_path, use):
    use(plain=TinyEncoder(context_size=0), all=TinyEncoder(name="tests/all", context_size=None))
    policies = (ContextPolicy("corpus"), ContextPolicy("none"))
    plan = Evaluation(models=("plain", "all"), tasks=SOURCES[:1], policies=policies, draws=3)
    found = [(record.model, record.policy) for record in records_of(plan, tmp_path)]
    # A context of all documents has no chance in it either.
    assert found == [("plain", "none"), ("all", "corpus"), ("all", "none")]


def test_what_a_model_does_not_do_is_left_out_and_said(tmp_path, use):
    use(tiny=TinyEncoder(task_types=frozenset({"Retrieval"})))
    plan = Evaluation(models=("tiny",), tasks=SOURCES[:2], policies=CORPUS)
    record, failure = list(evaluate(plan, tmp_path))
    assert isinstance(record, RunRecord) and isinstance(failure, Failure)
    assert failure.expected and "does not do Classification" in failure.reason


# Traps of mteb


def test_running_twice_in_one_process_gives_the_same_scores(tmp_path, use):
    # mteb's clustering and multilabel tasks carry a random state from run to run.
    use(tiny=TinyEncoder())
    plan = Evaluation(models=("tiny",), tasks=SOURCES, policies=CORPUS)
    first, second = records_of(plan, tmp_path / "a"), records_of(plan, tmp_path / "b")
    assert [r.scores for r in first] == [r.scores for r in second]


def test_the_order_of_tasks_does_not_change_their_scores(tmp_path, use):
    use(tiny=TinyEncoder())
    forth = Evaluation(models=("tiny",), tasks=SOURCES, policies=CORPUS)
    back = Evaluation(models=("tiny",), tasks=SOURCES[::-1], policies=CORPUS)
    first, second = records_of(forth, tmp_path / "a"), records_of(back, tmp_path / "b")
    assert [(r.task, r.scores) for r in first] == [(r.task, r.scores) for r in second[::-1]]


def test_two_models_of_one_folder_name_never_share_results(tmp_path, use):
    # mteb files every local model under one name, and serves one's scores for the other.
    use(a=TinyEncoder(revision="sha256-aaa"), b=TinyEncoder(revision="sha256-bbb", context_size=4))
    plan = Evaluation(models=("a", "b"), tasks=SOURCES[:1], policies=CORPUS)
    assert len(records_of(plan, tmp_path)) == 2
    assert len(read_records(tmp_path)) == 2
    assert len(list((tmp_path / "mteb").rglob("Tiny.json"))) == 2


def test_two_names_of_what_calls_itself_one_model_are_refused(tmp_path, use):
    use(a=TinyEncoder(), b=TinyEncoder())
    plan = Evaluation(models=("a", "b"), tasks=SOURCES[:1], policies=CORPUS)
    with pytest.raises(ConfigError, match="--model names a and b, which say the same name"):
        list(evaluate(plan, tmp_path))


def test_a_reranked_search_is_never_served_the_score_of_the_full_one(tmp_path, use):
    use(tiny=TinyEncoder(context_size=0))
    full = source(search_task)

    wrong = {"q0": [("d1", 1.0)], "q1": [("d2", 1.0)]}
    lists = {("default", "test"): CandidateLists(header("Tiny"), wrong)}
    rescoring = rescored(Candidates(full, lists, {}, depth=1, recall=0.0), RULES["mteb"])
    scores = [
        records_of(Evaluation(models=("tiny",), tasks=(one,), policies=CORPUS), tmp_path)[0]
        for one in (full, rescoring)
    ]
    assert scores[0].scores[0].main > 0.5
    assert scores[1].scores[0].main == 0  # no right answer among the candidates
    assert len(read_records(tmp_path)) == 2


def test_changed_data_is_evaluated_again(tmp_path, use):
    encoder = TinyEncoder(context_size=0)
    use(tiny=encoder)
    revision = "sha256-1"

    def plan() -> Evaluation:
        changed = TaskSource("Tiny", "folder", search_task, "Retrieval", lambda: revision)
        return Evaluation(models=("tiny",), tasks=(changed,), policies=CORPUS)

    records_of(plan(), tmp_path)
    calls = len(encoder.encoded)
    records_of(plan(), tmp_path)
    assert len(encoder.encoded) == calls, "nothing changed, nothing ran"
    revision = "sha256-2"
    records_of(plan(), tmp_path)
    assert len(encoder.encoded) > calls


def test_a_record_of_other_parts_than_are_asked_for_is_made_again(tmp_path, use):
    encoder = TinyEncoder(context_size=0)
    use(tiny=encoder)

    def of_splits(*splits: str) -> RunRecord:
        def make() -> AbsTask:
            return search_task().filter_eval_splits(list(splits))

        plan = Evaluation(models=("tiny",), tasks=(source(make),), policies=CORPUS)
        (record,) = records_of(plan, tmp_path)
        return record

    whole = of_splits("test")
    calls = len(encoder.encoded)
    assert of_splits("test") == whole and len(encoder.encoded) == calls
    (path,) = (tmp_path / "records").rglob("*.json")
    older = {**json.loads(path.read_text()), "seconds": 99.0}
    path.write_text(json.dumps({**older, "parts": ["dev/default", "test/default"]}))
    assert of_splits("test").seconds != 99 and read_records(tmp_path)[0].parts == whole.parts
    older.pop("parts")
    path.write_text(json.dumps(older))
    assert of_splits("test").seconds == 99  # a record of before stays


def test_changed_context_documents_are_read_again(tmp_path, use):
    encoder = TinyEncoder(context_size=2)
    use(tiny=encoder)
    notes = tmp_path / "notes.txt"
    for text, runs in (("tea\ncoffee\n", 1), ("tea\ncoffee\n", 1), ("tea\nmilk\n", 2)):
        notes.write_text(text)
        plan = Evaluation(
            models=("tiny",), tasks=SOURCES[:1], policies=(ContextPolicy(f"file:{notes}"),)
        )
        (record,) = records_of(plan, tmp_path / "out")
        assert record.contexts["test/default"]["source"] == "file:notes.txt"
        assert len(encoder.read) == runs
    assert len(read_records(tmp_path / "out")) == 2


# Resuming

KILLED = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from cde_eval import plan as plans
    from cde_eval import run
    from cde_eval.contexts import ContextPolicy
    from tests.cde_eval.test_run import SOURCES
    from tests.cde_eval.tiny_encoder import TinyEncoder

    class Slow(TinyEncoder):
        def encode(self, texts, **kw):
            if any("tea" in text for text in texts):  # the third task: clustering
                print("inside the third task", flush=True)
                time.sleep(60)
            return super().encode(texts, **kw)

    slow = Slow()
    plans.load_kept = lambda name, options: slow
    plan = plans.Evaluation(models=("tiny",), tasks=SOURCES, policies=(ContextPolicy("corpus"),))
    list(run.evaluate(plan, Path(sys.argv[1])))
    """
)


def test_a_run_killed_in_the_middle_goes_on_and_ends_with_the_same_files(tmp_path, use):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed")],
        cwd=REPOSITORY,
        env={**os.environ, "TQDM_DISABLE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "inside the third task"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    finished = {record.task for record in read_records(tmp_path / "killed")}
    assert finished == {"Tiny", "TinyReviews"}
    # What a kill in the middle of writing leaves behind is read by nobody.
    leftover = next((tmp_path / "killed" / "records").rglob("Tiny.json")).with_name(
        ".TinyClusters.json.0123.part"
    )
    leftover.write_text("{half of a rec")

    encoder = TinyEncoder()
    use(tiny=encoder)
    plan = Evaluation(models=("tiny",), tasks=SOURCES, policies=CORPUS)
    resumed = records_of(plan, tmp_path / "killed")
    assert [record.task for record in resumed] == [one.name for one in SOURCES]
    encoded = {text for call in encoder.encoded for text in call}
    assert "apples" not in encoded and "good film" not in encoded, "finished tasks ran again"

    uninterrupted = TinyEncoder()
    use(tiny=uninterrupted)
    records_of(plan, tmp_path / "whole")
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
