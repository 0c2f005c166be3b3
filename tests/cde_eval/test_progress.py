"""Bars, and the one bar of work in parts."""

import io

import pytest
from tqdm.auto import tqdm

from cde_eval import progress
from cde_eval.progress import one_bar, progress_bar


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[tqdm]:
    """Every bar that is made, as on a terminal."""
    made: list[tqdm] = []

    def bar(total: int, what: str) -> tqdm:
        made.append(tqdm(total=total, desc=what, file=io.StringIO(), disable=False))
        return made[-1]

    monkeypatch.setattr(progress, "_bar", bar)
    return made


def test_parts_move_the_bar_of_the_whole_and_nothing_counts_twice(bars):
    with one_bar(100) as reached:
        with progress_bar(40) as step:
            step(10)
            step(30)
        reached(40)
        assert bars[0].n == 40
        reached(70)  # a part that said nothing itself
        assert bars[0].n == 70
    assert len(bars) == 1


def test_work_of_another_kind_has_a_bar_of_its_own(bars):
    with one_bar(100), progress_bar(5, "context") as step:
        step(5)
    assert [bar.n for bar in bars] == [0, 5]


def test_after_the_whole_the_next_has_its_own_bar(bars):
    with one_bar(10):
        pass
    with progress_bar(3) as step:
        step(3)
    assert [bar.n for bar in bars] == [0, 3]


def test_without_a_terminal_there_are_no_bars_and_all_goes_on():
    with one_bar(10) as reached, progress_bar(5) as step:
        step(5)
        reached(10)
