import io
import json
import sys

import pytest

from cde_core.errors import ConfigError, DataError
from cde_core.train.log import MetricsLog, TrainingBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "metrics.jsonl"


def log_steps(path, steps, *, after_step=0):
    with MetricsLog(path, after_step=after_step) as log:
        for step in steps:
            log.write(step, {"loss": 1 / step, "accuracy": step / 10})


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# The file


def test_every_step_is_a_line_of_its_own(path):
    log_steps(path, [1, 2])
    assert path.read_text() == (
        '{"step": 1, "loss": 1.0, "accuracy": 0.1}\n{"step": 2, "loss": 0.5, "accuracy": 0.2}\n'
    )


def test_a_line_is_in_the_file_as_soon_as_it_is_written(path):
    log = MetricsLog(path)
    log.write(1, {"loss": 3.0})
    assert rows(path) == [{"step": 1, "loss": 3.0}]
    log.close()


@pytest.mark.parametrize("killed_at", [3, 4, 7])
def test_the_log_of_a_resumed_run_equals_that_of_an_uninterrupted_one(path, tmp_path, killed_at):
    whole = tmp_path / "whole.jsonl"
    log_steps(whole, range(1, 10))
    log_steps(path, range(1, killed_at + 1))
    log_steps(path, range(4, 10), after_step=3)  # the checkpoint was of step 3
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("half", ['{"step": 3, "lo', "{", "\0\0\0", '{"step": 9}', "12\n"])
def test_a_last_line_that_was_left_unfinished_is_dropped(path, half):
    log_steps(path, [1, 2])
    before = path.read_bytes()
    with path.open("a") as file:
        file.write(half)
    MetricsLog(path, after_step=2).close()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["metrics.jsonl"]


def test_a_last_line_that_only_lacks_its_end_is_kept(path):
    log_steps(path, [1, 2])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    MetricsLog(path, after_step=2).close()
    assert path.read_bytes() == whole


def test_a_new_run_starts_an_empty_log(path):
    log_steps(path, [1, 2])
    log_steps(path, [1])
    assert [row["step"] for row in rows(path)] == [1]


def test_several_lines_of_one_step_stay_together(path):
    with MetricsLog(path) as log:
        for step in (0, 1, 2):
            log.write(step, {"loss": 1.0})
            log.write(step, {"scores": {"A/corpus": 0.5}})
    MetricsLog(path, after_step=1).close()
    assert [row["step"] for row in rows(path)] == [0, 0, 1, 1]
    MetricsLog(path, after_step=-1).close()
    assert path.read_bytes() == b""


def test_a_broken_line_in_the_middle_is_named_and_nothing_is_lost(path):
    log_steps(path, [1, 2, 3])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{broken", lines[2], ""]))
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2") as error:
        MetricsLog(path, after_step=3)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == before


def test_numbers_that_json_does_not_have_are_null(path):
    with MetricsLog(path) as log:
        log.write(1, {"loss": float("nan"), "norm": float("inf"), "scores": {"a": [float("-inf")]}})

    def refuse(name):
        raise AssertionError(name)

    row = json.loads(path.read_text(), parse_constant=refuse)
    assert row == {"step": 1, "loss": None, "norm": None, "scores": {"a": [None]}}


# TensorBoard


def test_without_tensorboard_the_user_is_told_what_to_install(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ConfigError, match="install the extra `tensorboard`") as error:
        MetricsLog(path, tensorboard=True)
    assert "\n" not in str(error.value)
    assert not path.exists()


def test_tensorboard_gets_the_same_numbers(path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsLog(path, tensorboard=True) as log:
        for step in (1, 2, 3):
            log.write(step, {"loss": 0.5 * step, "note": "text stays in the file"})
        log.write(3, {"scores": {"A/corpus": 0.25}})
    events = EventAccumulator(str(path.parent / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["loss", "scores/A/corpus"]
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 0.5), (2, 1.0), (3, 1.5)]


# Progress


def progress(steps, file):
    with TrainingBar(steps, file=file) as bar:
        for step in range(1, steps + 1):
            bar.update(step, loss=2.5, shares={"accuracy": 0.625}, pairs_per_second=1234.5)
        bar.say("done")
    return file.getvalue()


@pytest.mark.parametrize(("steps", "lines"), [(3, 3), (40, 20), (50, 25), (1000, 20)])
def test_away_from_terminals_a_run_is_about_twenty_plain_lines(steps, lines):
    said = progress(steps, io.StringIO()).splitlines()
    assert len(said) == lines + 1
    last = f"step {steps:,} of {steps:,} · loss 2.5000 · accuracy 62.5% · 1,234 pairs/s"
    assert said[-2:] == [last, "done"]
    assert not any("\r" in line for line in said)


def test_on_a_terminal_a_bar_shows_loss_accuracy_and_speed():
    said = progress(3, Terminal())
    assert "3/3" in said and "\r" in said
    assert "loss 2.5000 · accuracy 62.5% · 1,234 pairs/s" in said


def test_a_bar_goes_on_where_the_run_does():
    file = Terminal()
    with TrainingBar(8, done=4, file=file):
        pass
    assert "4/8" in file.getvalue()


def test_without_tqdm_there_are_plain_lines_on_a_terminal_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert progress(2, Terminal()).splitlines()[0].startswith("step 1 of 2 · loss")
