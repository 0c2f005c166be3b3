"""The report: tables and figures of a results folder as files, and one page that shows them.

    records ──▶ tables/*.{md,csv} · figures/*.{png,svg} ──▶ index.html

No model runs here, and the page needs neither a network nor JavaScript.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from cde_core.errors import DataError
from cde_eval.report.figures import score_by_policy
from cde_eval.report.tables import as_read, gain_table, score_table
from cde_eval.results import RunRecord, read_records, write_atomically

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
figure { margin: 1rem 0; } img { max-width: 100%; background: #fff; border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #8884;
  white-space: nowrap; }
th:first-child, td:first-child, .words { text-align: left; }
code { font-size: .9em; } figcaption, .small { color: #777; font-size: .9rem; }
"""

WORD_COLUMNS = {"run", "task", "type", "measure", "model", "corpus against"}


def write_report(results: Path, out: Path) -> Path:
    """Write every table and figure that the records of a results folder give; returns the page.

    Raises:
        DataError: If there are no records.
        ConfigError: If the records follow several protocols.
    """
    records = read_records(results)
    if not records:
        raise DataError(
            f"{results} holds no results; run `cde-eval mteb --output {results}` first."
        )
    scores, gains = as_read(score_table(records)), gain_table(records)
    parts = [_heading(records), "<h2>Scores</h2>", _write_table(scores, "scores", out)]
    if not gains.empty:
        parts += ["<h2>What the context bought</h2>", _write_table(gains, "gains", out)]
        parts.append(_write_figure(score_by_policy(records), "score_by_policy", CAPTION, out))
    parts.append(_provenance(records))
    page = out / "index.html"
    write_atomically(page, _page("\n".join(parts)))
    return page


CAPTION = (
    "Score of each model on each task, by what it read first: documents of the task's own corpus, "
    "other built-in documents (random), or none. Horizontal bars span the draws."
)


def to_markdown(table: pd.DataFrame) -> str:
    """A table in Markdown, numbers to the right."""
    text = table.to_markdown(
        index=False,
        disable_numparse=True,
        colalign=["left" if column in WORD_COLUMNS else "right" for column in table.columns],
    )
    return f"{text}\n"


def _write_table(table: pd.DataFrame, name: str, out: Path) -> str:
    write_atomically(out / "tables" / f"{name}.md", to_markdown(table))
    write_atomically(out / "tables" / f"{name}.csv", table.to_csv(index=False))
    head = "".join(f"<th{_words(c)}>{html.escape(str(c))}</th>" for c in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_words(c)}>{html.escape(str(v))}</td>"
            for c, v in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.itertuples(index=False)
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f'<p class="small">As files: <a href="tables/{name}.md">Markdown</a>, '
        f'<a href="tables/{name}.csv">CSV</a>.</p>'
    )


def _words(column: object) -> str:
    return ' class="words"' if column in WORD_COLUMNS else ""


def _write_figure(figure: Figure, name: str, caption: str, out: Path) -> str:
    with mpl.rc_context({"svg.hashsalt": name}):  # the same records give the same bytes
        write_atomically(
            out / "figures" / f"{name}.svg",
            lambda part: figure.savefig(part, format="svg", metadata={"Date": None}),
        )
        write_atomically(
            out / "figures" / f"{name}.png",
            lambda part: figure.savefig(part, format="png", dpi=160, metadata={"Software": None}),
        )
    text = html.escape(caption)
    return (
        f'<figure><img src="figures/{name}.png" alt="{text}"><figcaption>{text} '
        f'<a href="figures/{name}.svg">Vector</a>.</figcaption></figure>'
    )


def _heading(records: Sequence[RunRecord]) -> str:
    tasks = len({record.task for record in records})
    models = ", ".join(dict.fromkeys(record.model for record in records))
    protocol = records[0].protocol
    return (
        "<h1>What context does to a score</h1>"
        f"<p>{html.escape(models)} on {tasks} task{'s' * (tasks != 1)}, protocol "
        f"<code>{html.escape(protocol)}</code>. A score of several draws of the context is their "
        "mean, with the standard deviation over draws; what was not run is left blank.</p>"
    )


def _provenance(records: Sequence[RunRecord]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in records[-1].versions.items())
    models = "".join(
        f"<li><code>{html.escape(model)}</code>: {html.escape(name)}, revision "
        f"<code>{html.escape(revision)}</code></li>"
        for model, name, revision in dict.fromkeys(
            (r.model, r.model_name, r.model_revision) for r in records
        )
    )
    commit = (
        f" Commit <code>{html.escape(records[-1].commit)}</code>." if records[-1].commit else ""
    )
    return (
        f'<h2>Made with</h2><ul class="small">{models}</ul>'
        f'<p class="small">{html.escape(versions)}.{commit} Every number comes from a record in '
        "<code>records/</code> of the results folder, which holds its context, seed and data "
        "revision.</p>"
    )


def _page(body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>What context does to a score</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )
