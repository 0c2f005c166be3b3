"""Going through a plan on the command line: what was scored, and what was not and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cde_eval.results import RunRecord
    from cde_eval.run import Evaluation


def scored(plan: Evaluation, output: Path) -> tuple[list[RunRecord], list[str]]:
    """Run a plan with a line for each score as it is there.

    Returns:
        Its records, and each distinct reason for what was not done.
    """
    from tqdm.auto import tqdm

    from cde_eval.commands.mteb import finished
    from cde_eval.run import Failure, evaluate

    records: list[RunRecord] = []
    reasons: list[str] = []
    for outcome in evaluate(plan, output):
        if isinstance(outcome, Failure):
            reasons.append(outcome.reason)
        else:
            records.append(outcome)
            tqdm.write(finished(outcome), file=sys.stderr)
    return records, list(dict.fromkeys(reasons))


def with_files(records: list[RunRecord], output: Path) -> dict[Path, RunRecord]:
    """Records by their files."""
    from cde_eval.results import records_by_path

    wanted = {one.model_dump_json() for one in records}
    found = records_by_path(output)
    return {path: one for path, one in found.items() if one.model_dump_json() in wanted}
