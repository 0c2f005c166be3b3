import itertools

import pytest

from cde_core.errors import ConfigError, ContextError
from cde_eval.commands.context_size import context_size
from cde_eval.commands.options import Computing
from cde_eval.encoders.bm25 import Bm25
from cde_eval.probes.context_size import size_plan, usual_sizes
from cde_eval.probes.readers import why_not_without
from cde_eval.results import RunRecord, read_records
from cde_eval.run import evaluate
from tests.cde_eval.probes.small_tasks import OPTIONS, SMALL_TASKS
from tests.cde_eval.test_run import files
from tests.cde_eval.tiny_encoder import TinyEncoder


class NeverWithout(TinyEncoder):
    def encode(self, texts, *, purpose, context=None):
        if context is None:
            raise ContextError("This model has no null context.")
        return super().encode(texts, purpose=purpose, context=context)


def plan(sizes, encoder=None, **changes):
    encoder = encoder or TinyEncoder(context_size=4)
    return size_plan("tiny", encoder, SMALL_TASKS, sizes, options=OPTIONS, **changes)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


@pytest.mark.parametrize(
    ("own", "sizes"),
    [
        (1, (0, 1)),
        (64, (0, 1, 4, 16, 64)),
        (512, (0, 1, 4, 16, 64, 256, 512)),
        (None, (0, 1, 4, 16, 64, 256, 1024, None)),
    ],
)
def test_sizes_go_up_fourfold_to_what_a_model_reads_by_itself(own, sizes):
    assert usual_sizes(own) == sizes


def test_each_size_is_drawn_several_times_and_nothing_once(tmp_path):
    records = list(evaluate(plan((0, 1, 3), draws=2), tmp_path))
    read = [(one.context_size, one.policy, one.draw) for one in records if one.task == "Tax"]
    assert sorted(read) == [
        (0, "none", 0),
        (1, "corpus", 0),
        (1, "corpus", 1),
        (3, "corpus", 0),
        (3, "corpus", 1),
    ]


def test_all_documents_are_read_once_since_there_is_no_chance_in_it(tmp_path):
    records = list(evaluate(plan((2, None), TinyEncoder(context_size=None), draws=3), tmp_path))
    sizes = [one.context_size for one in records if one.task == "Oven"]
    assert sizes == [2, 2, 2, None]
    whole = next(one for one in records if one.context_size is None)
    assert whole.contexts["test/default"]["documents"] == 4


def test_a_run_that_was_stopped_continues_to_the_same_files(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(evaluate(plan((0, 1, 4), draws=2), whole))
    list(itertools.islice(evaluate(plan((0, 1, 4), draws=2), parts), 8))
    list(evaluate(plan((0, 1, 4), draws=2), parts))
    assert files(parts) == files(whole) and len(read_records(whole)) == 3 * 5


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        ((), {}, "--sizes names no size"),
        ((-1,), {}, "A context of -1 documents cannot be drawn"),
        ((1,), {"draws": 0}, "--draws is 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(sizes, changes, message):
    with pytest.raises(ConfigError, match=message):
        plan(sizes, **changes)


def test_whether_a_model_can_do_without_is_known_before_anything_is_scored():
    assert why_not_without(TinyEncoder()) == "" and why_not_without(Bm25()) == ""
    assert why_not_without(NeverWithout()) == "This model has no null context."


def test_the_command_leaves_out_what_a_model_cannot_do_and_says_so(
    tmp_path, monkeypatch, capsys, use
):
    encoder = NeverWithout(context_size=4)
    monkeypatch.setattr("cde_eval.probes.readers.load_kept", lambda name, options: encoder)
    monkeypatch.setattr(
        "cde_eval.tasks.search_data.find_tasks", lambda names, data: list(SMALL_TASKS)
    )
    context_size(
        ("tiny",), sizes=(0, 1, 2, 4), draws=2, computing=Computing(device="cpu"), output=tmp_path
    )
    out, err = capsys.readouterr()
    assert "tiny is left out at size 0: This model has no null context." in err
    table = [line.split() for line in out.splitlines()]
    assert [row[2] for row in table if row[:2] == ["tiny", "corpus"]] == ["1", "2", "4"]
    assert all(isinstance(one, RunRecord) for one in read_records(tmp_path))
