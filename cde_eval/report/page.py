"""The report: every exhibit as files, and one page that shows them.

    results, published numbers ──▶ exhibits ──▶ tables/*.{md,csv} · figures/*.{png,svg}
                                                        └──▶ index.html · leaderboard.html

No model runs here. What has no numbers yet is on the page too, with the command that makes them.
The same results give the same bytes, and the page opens from disk, without network or JavaScript.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cde_core.errors import DataError
from cde_eval.report.contents import all_exhibits
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.leaderboard import write_leaderboard
from cde_eval.report.page_body import Shown, report_page
from cde_eval.report.style import save_figure
from cde_eval.report.table_files import save_table
from cde_eval.results import write_atomically

PUBLISHED = Path(__file__).resolve().parents[2] / "reports" / "published"


def write_report(results: Path, out: Path, published: Path | None = None) -> Path:
    """Write every table and figure that a results folder gives, and the page that shows them.

    Args:
        results: Results folder.
        out: Folder for tables/, figures/, index.html and leaderboard.html.
        published: Folder of published numbers; by default those that come with the source.

    Returns:
        The page.

    Raises:
        DataError: If there is no such folder, or a file in it is not what its place says.
        ConfigError: If the records follow several protocols.
    """
    if not results.is_dir():
        raise DataError(
            f"{results} holds no results; run `cde-eval mteb --output {results}` first."
        )
    material = Results(results, published or PUBLISHED)
    shown = [_show(exhibit, material) for exhibit in all_exhibits()]  # all, before any is written
    leaderboard = write_leaderboard(material, out)
    for one in shown:
        _write_files(one, out)
    page = out / "index.html"
    whole = report_page(shown, material.records, with_leaderboard=leaderboard is not None)
    write_atomically(page, whole)
    return page


def _show(exhibit: Exhibit, results: Results) -> Shown:
    made = exhibit.make(results)
    published = exhibit.published(results) if made is None else None
    note = "" if made is None and published is None else exhibit.note(results)
    return Shown(exhibit, made, published, note)


def _write_files(one: Shown, out: Path) -> None:
    """Write an exhibit's files, and remove those that an earlier report left of it."""
    name, what = one.exhibit.name, one.what
    tables, figures = ([out / folder / f"{name}.{end}" for end in ends] for folder, ends in ENDINGS)
    if isinstance(what, pd.DataFrame):
        save_table(what, name, out / "tables")
    elif what is not None:
        save_figure(what, name, out / "figures")
    stale = (tables if not isinstance(what, pd.DataFrame) else []) + (
        figures if what is None or isinstance(what, pd.DataFrame) else []
    )
    for path in stale:
        path.unlink(missing_ok=True)


ENDINGS = (("tables", ("md", "csv")), ("figures", ("png", "svg")))
