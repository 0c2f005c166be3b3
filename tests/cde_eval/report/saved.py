"""Results folders made by hand."""

from collections.abc import Sequence
from pathlib import Path

from cde_eval.results import RunRecord, record_path, write_atomically


def save(records: Sequence[RunRecord], results: Path) -> Path:
    """Write records where a results folder has them."""
    for number, one in enumerate(records):
        path = record_path(
            results, one.model_name, one.model_revision, {"n": str(number)}, one.task
        )
        write_atomically(path, one.model_dump_json())
    results.mkdir(exist_ok=True, parents=True)
    return results
