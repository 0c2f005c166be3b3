"""Two that could begin the same work."""

import threading

import pytest

from cde_core.errors import ConfigError
from cde_core.locks import one_process_at_a_time, the_only_process


def test_who_comes_second_waits(tmp_path):
    order = []

    def second():
        with one_process_at_a_time(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with one_process_at_a_time(tmp_path / "lock"):
        thread.start()
        order.append("first")
    thread.join(timeout=60)
    assert order == ["first", "second"]


def test_a_lock_that_cannot_be_written_is_said(tmp_path):
    file = tmp_path / "lock"
    file.mkdir()
    with (
        pytest.raises(ConfigError, match=r"lock cannot be written \(Is a .*; set CDE_EVAL_CACHE"),
        one_process_at_a_time(file),
    ):
        pass


def test_who_comes_second_is_told_so_and_who_comes_after_is_not(tmp_path):
    with (
        the_only_process(tmp_path / "lock", "-"),
        pytest.raises(ConfigError, match="somebody trains here"),
        the_only_process(tmp_path / "lock", "somebody trains here"),
    ):
        pass
    with the_only_process(tmp_path / "lock", "-"):
        pass
