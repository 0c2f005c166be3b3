"""`cde-eval report`: tables, figures and a page from result files; runs no model."""

from __future__ import annotations

from pathlib import Path


def report(results: Path = Path("results"), out: Path = Path("reports")) -> None:
    """Write every table and figure that a results folder gives, and a page that shows them.

    Args:
        results: Results folder of `cde-eval mteb --output`.
        out: Folder for tables/, figures/ and index.html.
    """
    from cde_eval.report.page import write_report

    print(f"Report: {write_report(results, out)}")
