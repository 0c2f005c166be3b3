"""`cde-eval report`: tables, figures and a page from result files; runs no model."""

from __future__ import annotations

from pathlib import Path


def report(
    results: Path = Path("results"), out: Path = Path("reports"), published: Path | None = None
) -> None:
    """Write every table and figure that a results folder gives, and a page that shows them.

    What has no results yet is on the page as well, with the command that makes them.

    Args:
        results: Results folder of `cde-eval mteb --output` and of the probes.
        out: Folder for tables/, figures/, index.html and leaderboard.html.
        published: Folder of published numbers; by default those that come with the source.
    """
    from cde_eval.report.page import write_report

    print(f"Report: {write_report(results, out, published)}")
