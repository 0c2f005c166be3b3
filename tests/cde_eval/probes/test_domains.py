import itertools

import pytest

from cde_core.errors import ConfigError
from cde_eval.commands.domains import domains
from cde_eval.commands.options import Computing
from cde_eval.contexts import ContextPolicy
from cde_eval.plan import Evaluation
from cde_eval.probes.domains import domains_plan
from cde_eval.probes.readers import readers
from cde_eval.report.domains import matrices
from cde_eval.report.evaluations import evaluations
from cde_eval.results import RunRecord, records_by_path
from cde_eval.run import evaluate
from tests.cde_eval.probes.small_tasks import OPTIONS, SMALL_TASKS
from tests.cde_eval.test_run import files
from tests.cde_eval.tiny_encoder import TinyEncoder

NAMES = ("Oven", "River", "Tax")


def plan(**changes):
    encoders = {"tiny": TinyEncoder(context_size=3)}
    return domains_plan(encoders, SMALL_TASKS, options=OPTIONS, **changes)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


def test_every_task_is_scored_with_the_documents_of_every_task(tmp_path):
    records = [one for one in evaluate(plan(), tmp_path) if isinstance(one, RunRecord)]
    assert {(one.task, one.policy) for one in records} == {
        (task, f"task:{domain}") for task, domain in itertools.product(NAMES, NAMES)
    }
    for one in records:
        read = one.contexts["test/default"]
        assert read["source"].startswith(f"{one.policy}/test ")
        assert (read["documents"], read["pool"]) == (3, 4)


def test_the_diagonal_reads_the_very_sample_that_the_policy_corpus_draws(tmp_path):
    own = Evaluation(
        models=("tiny",),
        tasks=SMALL_TASKS,
        policies=(ContextPolicy("corpus"),),
        draws=2,
        loaded={"tiny": TinyEncoder(context_size=3)},
    )

    def samples(records):
        return {
            (one.task, one.draw): (one.contexts["test/default"]["sha256"], one.scores)
            for one in records
        }

    corpus = samples(evaluate(own, tmp_path))
    diagonal = [
        one for one in evaluate(plan(draws=2), tmp_path) if one.policy == f"task:{one.task}"
    ]
    assert samples(diagonal) == corpus and len(corpus) == 6


def test_a_run_that_was_stopped_continues_to_the_same_files(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(evaluate(plan(draws=2), whole))
    list(itertools.islice(evaluate(plan(draws=2), parts), 7))
    encoder = TinyEncoder(context_size=3)
    again = domains_plan({"tiny": encoder}, SMALL_TASKS, draws=2, options=OPTIONS)
    list(evaluate(again, parts))
    assert len(encoder.read) == 3 * 3 * 2 - 7  # nothing is read twice
    assert files(parts) == files(whole)
    one, other = (matrices(evaluations(records_by_path(folder))) for folder in (whole, parts))
    assert one["tiny"].scores.equals(other["tiny"].scores)


def test_one_domain_alone_is_refused():
    with pytest.raises(ConfigError, match="there is only Oven; name two or more with --tasks"):
        domains_plan({"tiny": TinyEncoder()}, SMALL_TASKS[:1], options=OPTIONS)


def test_no_draw_is_refused():
    with pytest.raises(ConfigError, match="--draws is 0; draw at least one"):
        plan(draws=0)


# Which models, and which tasks


@pytest.fixture
def models(monkeypatch):
    encoders = {"tiny": TinyEncoder(), "plain": TinyEncoder(context_size=0)}
    monkeypatch.setattr("cde_eval.probes.readers.load_kept", lambda name, options: encoders[name])


def test_a_model_that_reads_nothing_is_left_out_in_so_many_words(models):
    found, idle = readers(["plain", "tiny"], OPTIONS)
    assert list(found) == ["tiny"]
    assert idle == ("plain reads no context; it is left out.",)


def test_only_models_that_read_nothing_are_refused_in_one_line(models):
    with pytest.raises(ConfigError, match=r"^plain reads no context, .* bm25, .*$") as caught:
        readers(["plain"], OPTIONS)
    assert "\n" not in str(caught.value)


def test_the_command_prints_the_matrix_and_names_who_was_left_out(
    models, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("cde_eval.tasks.search_data.find_tasks", lambda names, data: [*SMALL_TASKS])
    domains(("tiny", "plain"), computing=Computing(device="cpu"), output=tmp_path)
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines() if line[:3] in ("Ove", "Riv", "Tax")] == [
        *NAMES
    ]
    assert "●" in out and "over the 3 tasks" in out
    assert "cde-eval: plain reads no context; it is left out." in err
    assert len(records_by_path(tmp_path)) == 9
