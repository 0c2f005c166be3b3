"""What the page of the report says: its contents, every exhibit, and what all was made with.

    exhibits and what they made ──▶ report_page ──▶ HTML

An exhibit is its caption, its numbers in words, a table or a figure, and the command behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import pandas as pd

from cde_eval.report.exhibits import Exhibit, Made, Section
from cde_eval.report.leaderboard import PAGE_NAME
from cde_eval.report.web import command_html, escape, page_html, table_html
from cde_eval.results import RunRecord

TITLE = "What context does to a score"

SECTIONS: dict[Section, tuple[str, str]] = {
    "scores": (
        "Scores",
        "How well each model does on each task, and what it gains from reading documents first.",
    ),
    "context": (
        "Context",
        "Whose documents help, how many of them, and what they do to the vectors.",
    ),
    "clusters": (
        "Batches and clusters",
        "What a model is trained on, and which texts it has to tell apart at a time.",
    ),
    "position": (
        "Position",
        "Whether a long document's vector says as much of its end as of its beginning.",
    ),
    "geometry": (
        "Geometry",
        "How vectors lie in their space: which directions they use, and how many they need.",
    ),
}
assert set(SECTIONS) == set(get_args(Section))

PIXELS_PER_INCH = 118  # letters of 8 points are then as large as small print on the page
LEAST_WIDTH = 0.62  # of a figure's own; a narrower page scrolls it, so that letters can be read


@dataclass(frozen=True, slots=True)
class Shown:
    """An exhibit and what it made."""

    exhibit: Exhibit
    made: Made | None
    published: Made | None
    note: str

    @property
    def what(self) -> Made | None:
        """What the page shows: ours, else the published numbers."""
        return self.published if self.made is None else self.made


def report_page(
    shown: Sequence[Shown], records: Sequence[RunRecord], *, with_leaderboard: bool
) -> str:
    """The page, whole.

    Args:
        shown: Every exhibit, in order; the page groups them by section.
        records: Evaluations, for what the page says of them all.
        with_leaderboard: Whether there is a leaderboard to link to.
    """
    sections = {
        section: here
        for section in SECTIONS
        if (here := [one for one in shown if one.exhibit.section == section])
    }
    body = []
    for section, here in sections.items():
        title, about = SECTIONS[section]
        body.append(f'<h2 id="section-{section}">{escape(title)}</h2><p>{escape(about)}</p>')
        body += [_exhibit_html(one) for one in here]
    body.append(_provenance(records))
    introduction = _introduction(shown, records, with_leaderboard)
    return page_html(TITLE, introduction, _contents(sections, with_leaderboard), "\n".join(body))


def _contents(sections: dict[Section, list[Shown]], with_leaderboard: bool) -> str:
    parts = []
    for section, here in sections.items():
        parts.append(f'<b><a href="#section-{section}">{escape(SECTIONS[section][0])}</a></b><ul>')
        parts += [_entry(one) for one in here]
        parts.append("</ul>")
    parts.append("<b>More</b><ul>")
    if with_leaderboard:
        parts.append(f'<li><a href="{PAGE_NAME}">The leaderboard, with our runs</a></li>')
    parts.append('<li><a href="#made-with">Made with</a></li></ul>')
    return "".join(parts)


def _entry(one: Shown) -> str:
    todo = ' <span class="todo">· not run yet</span>' if one.made is None else ""
    return f'<li><a href="#{one.exhibit.name}">{escape(one.exhibit.title)}</a>{todo}</li>'


def _exhibit_html(one: Shown) -> str:
    exhibit, what = one.exhibit, one.what
    source = f' <span class="source">{escape(exhibit.source)}</span>' if exhibit.source else ""
    command = command_html(exhibit.command)
    parts = [f'<section id="{exhibit.name}"><h3>{escape(exhibit.title)}{source}</h3>']
    parts.append(f"<p>{escape(exhibit.caption)}</p>")
    parts += [f'<p class="note">{escape(line)}</p>' for line in one.note.splitlines()]
    if one.made is None:
        instead = " These are the published numbers alone." if what is not None else ""
        parts.append(f'<div class="missing"><b>Not run yet.</b>{instead} {command}</div>')
    if isinstance(what, pd.DataFrame):
        parts.append(table_html(what, ours=_ours(what)))
    elif what is not None:
        parts.append(_figure_html(what, exhibit))
    if what is not None:
        parts.append(_files_html(exhibit.name, is_table=isinstance(what, pd.DataFrame)))
    if one.made is not None:
        parts.append(f'<div class="small">Its numbers come from {command}</div>')
    return "".join(parts) + "</section>"


def _ours(table: pd.DataFrame) -> list[int]:
    """Rows that stand under published ones and are ours."""
    said = table["from"].astype(str) if "from" in table else []
    return [number for number, text in enumerate(said) if text.startswith("ours")]


def _figure_html(figure: Made, exhibit: Exhibit) -> str:
    assert not isinstance(figure, pd.DataFrame)
    width, height = (round(PIXELS_PER_INCH * inches) for inches in figure.get_size_inches())
    return (
        f'<figure class="wide" style="--least:{round(LEAST_WIDTH * width)}px">'
        f'<a href="figures/{exhibit.name}.svg"><img src="figures/{exhibit.name}.png" '
        f'width="{width}" height="{height}" loading="lazy" alt="{escape(exhibit.title)}"></a>'
        "</figure>"
    )


def _files_html(name: str, *, is_table: bool) -> str:
    kinds = (
        (("tables", "md", "Markdown"), ("tables", "csv", "CSV"))
        if is_table
        else (("figures", "png", "PNG"), ("figures", "svg", "SVG"))
    )
    links = ", ".join(f'<a href="{place}/{name}.{end}">{word}</a>' for place, end, word in kinds)
    return f'<p class="small">As files: {links}.</p>'


def _introduction(
    shown: Sequence[Shown], records: Sequence[RunRecord], with_leaderboard: bool
) -> str:
    made = sum(one.made is not None for one in shown)
    parts = []
    if records:
        models, tasks = (len({getattr(r, name) for r in records}) for name in ("model", "task"))
        parts.append(
            f"<p>{_count(models, 'model')} on {_count(tasks, 'task')}, protocol "
            f"<code>{escape(records[0].protocol)}</code>: {_count(len(records), 'evaluation')}.</p>"
        )
    parts.append(
        f"<p>{made} of {len(shown)} tables and figures have numbers here. The others say which "
        "command makes them; no model runs when this page is written.</p>"
    )
    if with_leaderboard:
        parts.append(
            f'<p>On a page of its own: <a href="{PAGE_NAME}">our runs among published models</a>.'
            "</p>"
        )
    return "".join(parts)


def _provenance(records: Sequence[RunRecord]) -> str:
    if not records:
        return '<h2 id="made-with">Made with</h2><p class="small">No evaluation so far.</p>'
    versions = ", ".join(f"{name} {number}" for name, number in records[-1].versions.items())
    models = "".join(
        f"<li><code>{escape(model)}</code>: {escape(name)}, revision "
        f"<code>{escape(revision)}</code></li>"
        for model, name, revision in dict.fromkeys(
            (r.model, r.model_name, r.model_revision) for r in records
        )
    )
    commit = f" Commit <code>{escape(records[-1].commit)}</code>." if records[-1].commit else ""
    return (
        f'<h2 id="made-with">Made with</h2><ul class="small">{models}</ul>'
        f'<p class="small">{escape(versions)}.{commit} Every score comes from a record in '
        "<code>records/</code> of the results folder, which holds its context, seed and data "
        "revision.</p>"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
