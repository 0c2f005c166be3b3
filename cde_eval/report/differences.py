"""A comparison of two runs, to be read: a table, a sentence, a picture.

    Comparison ──▶ lines for the terminal · differences.{csv,md} · differences.{png,svg}

Differences are in points: scores × 100, B − A. The picture is drawn by `forest`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cde_eval.compare import Comparison, Difference
from cde_eval.report.forest import difference_figure
from cde_eval.report.style import save_figure
from cde_eval.report.table_files import to_markdown
from cde_eval.report.tables import measure_name, score_text
from cde_eval.report.verdicts import A_BETTER, B_BETTER, PERCENT, UNCLEAR, points, verdict
from cde_eval.results import write_atomically


def difference_table(comparison: Comparison) -> pd.DataFrame:
    """One row per task, the mean of tasks below; text cells, differences in points."""
    tasks = comparison.tasks
    rows = [*tasks, comparison.mean] if len(tasks) > 1 else tasks
    several = len({one.measure for one in tasks}) > 1
    table = pd.DataFrame(
        {
            "task": [one.task for one in rows],
            "measure": [measure_name(one.measure) for one in rows],
            "A": [score_text(one.a) for one in rows],
            "B": [score_text(one.b) for one in rows],
            "B − A": [f"{points(one.difference):+z.2f}" for one in rows],
            f"{PERCENT} interval": [_interval_text(one) for one in rows],
            "p": [_p_text(one.p) for one in rows],
            "p corrected": [_p_text(one.p_corrected) for one in rows],
            "won/lost/tied": [
                "" if one.won is None else f"{one.won}/{one.lost}/{one.tied}" for one in rows
            ],
        }
    )
    return table if several else table.drop(columns="measure")


def number_table(comparison: Comparison) -> pd.DataFrame:
    """The same for programs: numbers, what A and B are on every row, the mean of tasks last."""
    rows = [*comparison.tasks, comparison.mean]
    columns = {
        "task": [one.task for one in rows],
        "measure": [one.measure for one in rows],
        "run_a": [comparison.a for _ in rows],
        "run_b": [comparison.b for _ in rows],
        "score_a": [one.a for one in rows],
        "score_b": [one.b for one in rows],
        "points_b_minus_a": [points(one.difference) for one in rows],
        "low": [points(one.low) for one in rows],
        "high": [points(one.high) for one in rows],
        "p": [one.p for one in rows],
        "p_corrected": [one.p_corrected for one in rows],
    }
    counts = {name: [getattr(one, name) for one in rows] for name in ("won", "lost", "tied")}
    return pd.DataFrame(columns).assign(
        **{name: pd.array(values, dtype="Int64") for name, values in counts.items()}
    )


def heading(comparison: Comparison) -> str:
    """What A and B are, and what the columns of the table mean."""
    tested = sum(one.p is not None for one in comparison.tasks)
    how = (
        f" {PERCENT} interval by paired bootstrap over queries and draws; p by randomisation, "
        f"corrected by Holm's method for {_count(tested, 'task')}; queries won, lost and tied by B."
    )
    return (
        f"A is {comparison.a}. B is {comparison.b}.\n"
        "B − A is in points (score × 100): above zero, B is better." + how * (tested > 0)
    )


def conclusion(comparison: Comparison) -> str:
    """What the table says, in a sentence."""
    tested = [one for one in comparison.tasks if one.p is not None]
    if not tested:
        higher = sum(one.difference > 0 for one in comparison.tasks)
        return (
            f"B scores higher on {higher} of {_count(len(comparison.tasks), 'task')}; without "
            "scores of queries nothing says whether that is chance."
        )
    verdicts = Counter(map(verdict, tested))
    better, worse, unclear = (verdicts[name] for name in (B_BETTER, A_BETTER, UNCLEAR))
    if unclear == len(tested):
        return f"B is neither better nor worse on {_tasks(tested)}; what differs may be chance."
    if len(tested) == 1:
        return f"B is {'better' if better else 'worse'} on {tested[0].task}."
    says = [f"better on {better}"] if better else []
    says += [f"worse on {worse}"] if worse else []
    rest = f"; on the other {unclear} the difference may be chance" if unclear else ""
    return f"B is {' and '.join(says)} of {len(tested)} tasks after correction{rest}."


def write_differences(comparison: Comparison, out: Path) -> list[Path]:
    """Write table and picture, each whole or not at all; the same numbers give the same bytes.

    Args:
        comparison: Two runs, task by task.
        out: Folder for differences.csv, .md, .png and .svg.

    Returns:
        The files.
    """
    paths = [out / f"differences.{ending}" for ending in ("csv", "md", "png", "svg")]
    table, text, *_ = paths
    numbers = number_table(comparison).to_csv(index=False, float_format="%.6g")
    write_atomically(table, numbers)
    parts = [heading(comparison), to_markdown(difference_table(comparison)).rstrip("\n")]
    parts += [conclusion(comparison), *comparison.notes]
    write_atomically(text, "\n\n".join(parts) + "\n")
    save_figure(difference_figure(comparison), "differences", out)
    return paths


def _interval_text(one: Difference) -> str:
    if one.low is None or one.high is None:
        return ""
    return f"[{points(one.low):+z.2f}, {points(one.high):+z.2f}]"


def _p_text(p: float | None) -> str:
    return "" if p is None else f"{p:.4f}"


def _tasks(found: Sequence[Difference]) -> str:
    return found[0].task if len(found) == 1 else f"any of {len(found)} tasks after correction"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
