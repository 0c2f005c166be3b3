"""Options that several commands have: their flags, and the plan that they make."""

import sys

import pytest

from cde_core.errors import ConfigError, TaskError
from cde_eval.cli import COMMANDS, main
from cde_eval.commands.options import Computing, Judging, Loading, Reading, planned
from tests.cde_eval.probes.small_tasks import SMALL_TASKS

HERE = Computing(device="cpu")

COMPUTING = {"--device", "--dtype", "--engine"}
READING = {"--context", "--size", "--draws", "--seed"}
JUDGING = {"--pairs", "--surrogate", "--surrogate-length", "--most-per-source", "--device"}


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("mteb", READING | COMPUTING),
        ("beir-small", READING | COMPUTING),
        ("geometry", READING | COMPUTING),
        ("context-space", READING | COMPUTING),
        ("candidates", COMPUTING),
        ("domains", COMPUTING),
        ("idf", {"--device", "--dtype"}),
        ("neighbours", JUDGING),
        ("clusters", JUDGING),
        ("difficulty", JUDGING),
    ],
)
def test_shared_options_are_flags_of_the_command_under_their_plain_names(
    command, flags, monkeypatch, capsys
):
    assert command in COMMANDS
    monkeypatch.setattr(sys, "argv", ["cde-eval", command, "--help"])
    with pytest.raises(SystemExit):
        main()
    words = set(capsys.readouterr().out.split())
    assert flags <= words
    assert not any(word.startswith(("--reading", "--computing", "--judging")) for word in words)


def test_the_words_of_a_command_line_are_the_plan():
    reading = Reading(context=("none", "task:DocsNumpy"), size=7, draws=2, seed=3)
    plan = planned(["bm25"], SMALL_TASKS, reading, HERE, rerank_as_search=True)
    assert plan.models == ("bm25",) and plan.tasks == SMALL_TASKS
    assert [(one.source, one.size, one.seed) for one in plan.policies] == [
        ("none", 7, 3),
        ("task:DocsNumpy", 7, 3),
    ]
    assert [one.name for one in plan.task_lookup] == ["DocsNumpy"]
    assert plan.draws == 2 and plan.rerank_as_search
    assert (plan.options.device, plan.options.engine) == ("cpu", "here")


@pytest.mark.parametrize(
    ("models", "tasks", "reading", "message"),
    [
        ([], SMALL_TASKS, Reading(), "--model names no model"),
        (["bm25"], [], Reading(), "There is no task to score"),
        (["bm25"], SMALL_TASKS, Reading(draws=0), "--draws is 0; draw at least one sample"),
        (["bm25"], SMALL_TASKS, Reading(context=("corpsu",)), "Did you mean 'corpus'"),
    ],
)
def test_what_is_no_plan_is_refused(models, tasks, reading, message):
    with pytest.raises(ConfigError, match=message):
        planned(models, tasks, reading, HERE)


def test_a_context_of_no_known_task_is_refused():
    with pytest.raises(TaskError, match="There is no task 'Nowhere'"):
        planned(["bm25"], SMALL_TASKS, Reading(context=("task:Nowhere",)), HERE)


def test_models_are_loaded_as_they_are_asked_for():
    options = Computing(device="cpu", dtype="bfloat16", engine="ray").options()
    assert (options.device, options.dtype, options.engine) == ("cpu", "bfloat16", "ray")
    assert Loading(device="cpu").options().engine == "here"


def test_pairs_and_their_judge_are_those_of_a_recipe():
    recipe = Judging(pairs=("a", "b"), surrogate="tfidf", surrogate_length=9, device="cpu").recipe()
    assert recipe.data.sources == ("a", "b") and recipe.device == "cpu"
    assert (recipe.clusters.surrogate, recipe.clusters.surrogate_length) == ("tfidf", 9)
