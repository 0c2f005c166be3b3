"""What a command says of what it could not do, and the status it ends with."""

import pytest

from cde_eval.commands.outcomes import end, go_through
from cde_eval.plan import Failure

LEFT_OUT = Failure("bm25", "STS12", "bm25 does not do STS tasks; STS12 is left out.", expected=True)
BROKEN = Failure("bm25", "Tiny", "Tiny cannot be loaded.")


def test_what_was_found_is_told_as_it_comes_and_kept_apart_from_failures():
    told = []

    def work():
        yield "one"
        assert told == ["one"]  # before the next is begun
        yield BROKEN
        yield "two"

    assert go_through(work(), told.append) == (["one", "two"], [BROKEN])
    assert told == ["one", "two"]


@pytest.mark.parametrize(
    ("found", "failures", "status"),
    [
        (["one"], [], 0),
        (["one"], [LEFT_OUT], 0),
        (["one"], [LEFT_OUT, BROKEN], 2),
        ([], [LEFT_OUT], 2),
        ([], [], 2),
    ],
)
def test_a_command_fails_with_nothing_or_with_what_should_have_been_done(found, failures, status):
    try:
        end(found, failures)
        assert status == 0
    except SystemExit as stop:
        assert stop.code == status


def test_each_reason_is_said_once_and_what_was_left_out_before_what_failed(capsys):
    with pytest.raises(SystemExit):
        end(["one"], [BROKEN, LEFT_OUT, BROKEN], ["minilm reads no context."])
    assert capsys.readouterr().err.splitlines() == [
        "cde-eval: minilm reads no context.",
        "cde-eval: Tiny cannot be loaded.",
        "cde-eval: bm25 does not do STS tasks; STS12 is left out.",
    ]
