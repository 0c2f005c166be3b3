"""Going through work on the command line: what was found, what was not and why, and the status.

    outcomes, as they come ──go_through──▶ what was found, failures ──end──▶ exit status 0 or 2

What cannot be done does not keep the rest from being done. It is said last, below the results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from cde_eval.plan import Evaluation, Failure
    from cde_eval.results import RunRecord

Found = TypeVar("Found")


def say(line: str) -> None:
    """Tell the user what was done, beside the result."""
    from tqdm.auto import tqdm

    tqdm.write(line, file=sys.stderr)
    sys.stderr.flush()


def go_through(
    outcomes: Iterable[Found | Failure], tell: Callable[[Found], object] = lambda found: None
) -> tuple[list[Found], list[Failure]]:
    """Do work one piece after the other, and keep what it gives apart from what it could not do.

    Args:
        outcomes: The work; each piece gives something or a `Failure`.
        tell: Told each thing as it is there.

    Returns:
        What was found, and the failures.
    """
    from cde_eval.plan import Failure

    found: list[Found] = []
    failures: list[Failure] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            found.append(outcome)
            tell(outcome)
    return found, failures


def scored(plans: Iterable[Evaluation], output: Path) -> tuple[list[RunRecord], list[Failure]]:
    """Run plans one after the other, with a line for each score as it is there.

    Returns:
        Their records, and what was not done.
    """
    from cde_eval.run import evaluate

    return go_through((one for plan in plans for one in evaluate(plan, output)), say_score)


def say_score(record: RunRecord) -> None:
    """A line that says what an evaluation gave."""
    scores = ", ".join("–" if one.main is None else f"{one.main:.4f}" for one in record.scores)
    draw = f" draw {record.draw + 1} of {record.draws}" if record.draws > 1 else ""
    say(f"{record.task}: {record.model}, context {record.policy}{draw}: {scores}")


def end(found: Sized, failures: Sequence[Failure] = (), notes: Iterable[str] = ()) -> None:
    """Say what was not done, each reason once, and end with status 2 if the command failed.

    It has failed where nothing was found, or something could not be done that should have been.

    Args:
        found: What the command was for.
        failures: What could not be done.
        notes: What else was left out, as it had to be.
    """
    reasons = [*notes, *(failure.reason for failure in failures)]
    for reason in dict.fromkeys(reasons):
        print(f"cde-eval: {reason}", file=sys.stderr)
    if not len(found) or not all(failure.expected for failure in failures):
        sys.exit(2)


def with_files(records: list[RunRecord], output: Path) -> dict[Path, RunRecord]:
    """Records by their files."""
    from cde_eval.results import records_by_path

    wanted = {one.model_dump_json() for one in records}
    found = records_by_path(output)
    return {path: one for path, one in found.items() if one.model_dump_json() in wanted}
