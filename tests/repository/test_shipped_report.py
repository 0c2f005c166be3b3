"""The report that is shipped is the one that the shipped results give."""

from pathlib import Path

import pytest

from cde_eval.report.page import write_report

REPORTS = Path(__file__).resolve().parents[2] / "reports"


@pytest.mark.slow
def test_the_shipped_tables_are_those_of_the_shipped_results_byte_for_byte(tmp_path):
    write_report(REPORTS / "results", tmp_path, published=REPORTS / "published")
    shipped = {path.name: path.read_bytes() for path in (REPORTS / "tables").iterdir()}
    made = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    assert made == shipped and len(made) > 10
    figures = {path.name for path in (REPORTS / "figures").iterdir()}
    assert figures == {path.name for path in (tmp_path / "figures").iterdir()}
