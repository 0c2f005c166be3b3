import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from mteb.models.abs_encoder import AbsEncoder

from cde_core.errors import ConfigError
from cde_core.text import Purpose
from cde_eval.contexts import ContextPolicy
from cde_eval.mteb_encoder import model_meta
from cde_eval.plan import Evaluation
from cde_eval.report.tables import gain_table, runs, score_table, score_text, usual
from cde_eval.results import TOKENS_PER_DOCUMENT, RunRecord
from cde_eval.run import evaluate
from cde_eval.tasks.catalogue import TaskSource
from tests.cde_eval.tasks.tiny_tasks import search_data, tiny_task
from tests.cde_eval.tiny_encoder import TinyEncoder
from tests.cde_eval.tiny_records import record


def sts(task: str, score: float | None, **changes: Any) -> RunRecord:
    changes.setdefault("main_measure", "cosine_spearman")
    return record(task, score, task_type="STS", **changes)


def cells(records: Sequence[RunRecord]) -> dict[str, dict[str, str]]:
    """The table as {row: {run: text}}."""
    table = score_table(records)
    rows = zip(table.index, table.to_dict("records"), strict=True)
    return {row[0]: dict(values) for row, values in rows}


def draws(task: str, *scores: float, **changes: Any) -> list[RunRecord]:
    return [
        record(task, score, draw=number, draws=len(scores), **changes)
        for number, score in enumerate(scores)
    ]


# Cells


def test_a_cell_holds_the_score():
    assert cells([record("A", 0.59051)]) == {"A": {"tiny · corpus": "0.5905"}}


def test_several_draws_give_their_mean_and_their_standard_deviation():
    # Mean (0.4 + 0.5 + 0.6) / 3 = 0.5; deviation sqrt((0.01 + 0 + 0.01) / 2) = 0.1.
    assert cells(draws("A", 0.4, 0.5, 0.6)) == {"A": {"tiny · corpus": "0.5000 ± 0.1000"}}


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (0.59051, math.nan, "0.5905"),
        (0.59051, 0.00118, "0.5905 ± 0.0012"),
        (math.nan, math.nan, "–"),
        (-0.00004, math.nan, "-0.0000"),
        (1.0, 0.0, "1.0000 ± 0.0000"),
    ],
)
def test_a_score_is_written_with_four_places(mean: float, spread: float, text: str):
    assert score_text(mean, spread) == text


def test_what_was_not_run_is_blank_and_what_is_undefined_a_dash():
    table = cells(
        [record("A", 0.5), record("B", None), record("A", 0.25, model="bm25", policy="corpus")]
    )
    assert table["A"] == {"tiny · corpus": "0.5000", "bm25 · corpus": "0.2500"}
    assert table["B"] == {"tiny · corpus": "–", "bm25 · corpus": ""}


def test_a_task_of_several_splits_and_subsets_has_a_row_for_each():
    one = record("A", scores={("test", "deu"): 0.25, ("test", "eng"): 0.75})
    two = record("B", scores={("dev", "default"): 0.5, ("test", "default"): 1.0})
    assert list(cells([one, two])) == [
        "A (test, deu)",
        "A (test, eng)",
        "B (dev)",
        "B (test)",
        "mean of tasks",
    ]


def test_tasks_stand_by_type_and_then_as_they_came():
    table = cells([sts("Z", 0.5), record("Y", 0.5), sts("A", 0.5), record("B", 0.5)])
    assert list(table)[:4] == ["Y", "B", "Z", "A"]


def test_no_records_give_an_empty_table():
    assert score_table([]).empty
    assert gain_table([]).empty


# Columns


def test_a_model_that_reads_nothing_has_one_plain_column():
    frame = runs([record("A", policy="none", model="minilm"), record("A"), record("A", 0.4)])
    assert list(dict.fromkeys(frame["run"])) == ["minilm", "tiny · corpus"]


def test_a_contextual_model_has_a_column_per_policy():
    frame = runs([record("A"), record("A", policy="none"), record("A", policy="random")])
    assert list(frame["run"]) == ["tiny · corpus", "tiny · random", "tiny · none"]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"model_revision": "2"}, ["tiny 1 · corpus", "tiny 2 · corpus"]),
        ({"context_size": 512}, ["tiny J=8 · corpus", "tiny J=512 · corpus"]),
        ({"context_size": None}, ["tiny J=8 · corpus", "tiny J=all · corpus"]),
        (
            {"settings": {"dtype": "bfloat16"}},
            ["tiny {} · corpus", 'tiny {"dtype": "bfloat16"} · corpus'],
        ),
    ],
)
def test_runs_that_differ_are_never_averaged(changes: dict[str, Any], names: list[str]):
    table = cells([record("A", 0.25), record("A", 0.75, **changes)])
    assert table["A"] == dict(zip(names, ["0.2500", "0.7500"], strict=True))


def test_results_of_two_protocols_share_no_table():
    mixed = [record("A"), record("B", protocol="author")]
    for table in (runs, score_table, gain_table):
        with pytest.raises(ConfigError, match="author and paper, whose scores are not comparable"):
            table(mixed)


BF16 = {"dtype": "bfloat16"}


def test_two_models_of_one_name_are_never_called_the_same():
    # Each has a policy of its own, so the policies alone would tell the columns apart.
    frame = runs([record("A"), record("A", policy="none", settings=BF16)])
    assert list(frame["run"]) == ["tiny {} · corpus", 'tiny {"dtype": "bfloat16"} · none']
    assert list(frame["model"]) == ["tiny {}", 'tiny {"dtype": "bfloat16"}']
    assert runs([record("A"), record("A", policy="none")])["model"].nunique() == 1


# What a table shows


def shown(*records: RunRecord) -> list[tuple[Any, ...]]:
    return [(one.task, one.policy, one.context_size, one.settings) for one in usual(records)]


def test_the_size_that_a_model_has_on_most_tasks_is_shown_and_what_reads_nothing_always():
    many = [record(task) for task in "AB"]
    other = [record("A", context_size=512), record("A", policy="none")]
    assert [row[:3] for row in shown(*many, *other)] == [
        ("A", "corpus", 8),
        ("B", "corpus", 8),
        ("A", "none", 0),
    ]
    assert [size for _, _, size, _ in shown(record("A"), record("A", context_size=None))] == [None]


@pytest.mark.parametrize("changes", [{"settings": BF16}, {"model_revision": "2"}])
def test_another_model_of_the_same_name_has_a_size_of_its_own(changes: dict[str, Any]):
    # By name alone 8 documents would be usual, on two tasks, and the other model not be shown.
    other = record("A", context_size=512, **changes)
    assert usual([record("A"), record("B"), other])[-1] == other


def test_what_probes_and_rescoring_leave_is_not_shown():
    lists = {"retriever": "bm25", "depth": 10, "titles": True}
    assert not shown(
        record("A", policy="task:B"),
        record("A", settings={TOKENS_PER_DOCUMENT: "4"}),
        record("A", candidates=lists),
    )


# Means


def test_means_are_over_the_tasks_of_a_type_over_all_tasks_and_over_types():
    # Retrieval (0.2 + 0.4) / 2 = 0.3; STS 0.9; tasks (0.2 + 0.4 + 0.9) / 3 = 0.5;
    # types (0.3 + 0.9) / 2 = 0.6. A type of one task needs no row for its mean.
    table = cells([record("A", 0.2), record("B", 0.4), sts("C", 0.9)])
    run = "tiny · corpus"
    assert {row: values[run] for row, values in list(table.items())[3:]} == {
        "mean of Retrieval": "0.3000",
        "mean of tasks": "0.5000",
        "mean of types": "0.6000",
    }


def test_a_task_of_many_draws_or_subsets_counts_once():
    # A: (0.1 + 0.3) / 2 = 0.2 over draws; B: (0.2 + 0.6) / 2 = 0.4 over subsets; mean 0.3.
    subsets = record("B", scores={("test", "deu"): 0.2, ("test", "eng"): 0.6})
    table = cells([*draws("A", 0.1, 0.3), subsets])
    assert table["mean of tasks"] == {"tiny · corpus": "0.3000"}


def test_one_task_has_no_means():
    assert list(cells([record("A")])) == ["A"]


def test_a_mean_is_blank_where_one_of_its_tasks_was_not_run():
    table = cells(
        [
            *(record("A", 0.2), record("B", 0.4), sts("C", 0.9)),
            *(record("A", 0.3, model="bm25"), record("B", 0.5, model="bm25")),
        ]
    )
    assert table["C"]["bm25 · corpus"] == ""
    assert table["mean of Retrieval"]["bm25 · corpus"] == "0.4000"
    assert table["mean of tasks"] == {"tiny · corpus": "0.5000", "bm25 · corpus": ""}
    assert table["mean of types"] == {"tiny · corpus": "0.6000", "bm25 · corpus": ""}


def test_a_mean_is_blank_where_a_subset_of_one_of_its_tasks_was_not_run():
    whole = record("A", scores={("test", "deu"): 0.2, ("test", "eng"): 0.6})
    half = record("A", scores={("test", "deu"): 0.2}, model="bm25")
    table = cells([whole, record("B", 0.4), half, record("B", 0.5, model="bm25")])
    assert table["A (test, eng)"]["bm25 · corpus"] == ""
    assert table["mean of tasks"] == {"tiny · corpus": "0.4000", "bm25 · corpus": ""}


def test_a_mean_over_an_undefined_score_is_undefined():
    table = cells([record("A", 0.2), record("B", None), sts("C", 0.9)])
    run = "tiny · corpus"
    assert table["mean of Retrieval"][run] == "–"
    assert table["mean of tasks"][run] == "–"
    assert table["mean of types"][run] == "–"


# Gains


def test_a_gain_is_the_mean_difference_in_points_over_tasks_that_have_both():
    # A: 0.60 - 0.50 = +10 points; B: 0.40 - 0.42 = -2; C was not run without: left out.
    # Mean (10 - 2) / 2 = +4, above zero on 1 of 2.
    gains = gain_table(
        [
            *(record("A", 0.60), record("B", 0.40), record("C", 0.99)),
            *(record("A", 0.50, policy="none"), record("B", 0.42, policy="none")),
        ]
    )
    assert gains.to_dict("records") == [
        {
            "model": "tiny",
            "corpus against": "none",
            "points": "+4.00",
            "better on": "1 of 2 tasks",
        }
    ]


def test_gains_are_of_the_mean_over_draws_and_against_each_policy():
    # corpus (0.4 + 0.6) / 2 = 0.5; random (0.45 + 0.65) / 2 = 0.55: -5; none 0.5: no gain at all.
    gains = gain_table(
        [
            *draws("A", 0.4, 0.6),
            *draws("A", 0.45, 0.65, policy="random"),
            record("A", 0.5, policy="none"),
        ]
    )
    assert gains[["corpus against", "points", "better on"]].to_numpy().tolist() == [
        ["random", "-5.00", "0 of 1 tasks"],
        ["none", "+0.00", "0 of 1 tasks"],
    ]


def test_a_model_without_the_corpus_or_without_another_policy_has_no_gain():
    assert gain_table([record("A", policy="none"), record("A", policy="random")]).empty
    assert gain_table([record("A")]).empty
    assert gain_table([record("A"), record("B", policy="none")]).empty  # no task has both


# Against mteb itself


class Plain(AbsEncoder):
    """The tiny encoder behind mteb's own search, with nothing of ours between."""

    def __init__(self) -> None:
        self.mteb_model_meta = model_meta(TinyEncoder(), {})

    def encode(self, inputs: Any, **kwargs: Any) -> np.ndarray:
        texts = [text for batch in inputs for text in batch["text"]]
        role = "query" if str(kwargs["prompt_type"].value) == "query" else "document"
        return TinyEncoder().encode(texts, purpose=Purpose("Retrieval", role))


def test_a_cell_is_the_number_that_mteb_computes_by_itself(tmp_path: Path):
    def make() -> Any:
        data = search_data()
        data["relevant_docs"] = {"q1": {"d2": 1, "d4": 1}, "q2": {"d1": 1, "d3": 1}}
        return tiny_task("Retrieval", {"default": {"test": data}}, name="TinyRetrieval")

    source = TaskSource("TinyRetrieval", "built-in", make, "Retrieval")
    plan = Evaluation(
        models=("tiny",),
        tasks=(source,),
        policies=(ContextPolicy("corpus"),),
        loaded={"tiny": TinyEncoder(context_size=0)},
    )
    ours = [found for found in evaluate(plan, tmp_path) if isinstance(found, RunRecord)]
    theirs = mteb.evaluate(Plain(), make(), cache=None, show_progress_bar=False)
    score = theirs.task_results[0].get_score()
    assert 0 < score < 1  # a score that a mistake could move either way
    assert cells(ours) == {"TinyRetrieval": {"tiny": f"{score:.4f}"}}
