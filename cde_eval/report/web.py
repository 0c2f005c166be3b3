"""What pages are made of: the look, a table that can be sorted, the frame around it all.

A page is one file with its style inside. It needs no network and reads whole without JavaScript;
where there is JavaScript, a click on a column's heading sorts its table. A table that is larger
than its place scrolls by itself, and has a shade at the edges that more of it lies behind.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection

import pandas as pd

from cde_eval.report.table_files import as_text, word_columns

SOME_TEXT, LONG_TEXT = 30, 48
"""Letters from which a cell may be broken into lines, and into wide ones."""

LONG_TABLE = 22
"""Rows from which a table scrolls by itself."""

STYLE = """
:root { color-scheme: light dark; --text: #1d2227; --soft: #5c6670; --line: #d9dee3;
  --page: #fff; --card: #f6f8fa; --link: #0b5cad; --ours: #e8f1fb; --missing: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --text: #dde3e9; --soft: #98a3ae; --line: #343b43;
  --page: #14181c; --card: #1d2328; --link: #7cb8f2; --ours: #1b3147; --missing: #e0ac4e; }
  img { filter: brightness(.92); } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; color: var(--text);
  background: var(--page); overflow-wrap: break-word; }
a { color: var(--link); }
header, main, nav { padding: .5rem clamp(1rem, 4vw, 2.5rem); }
header, main { max-width: 62rem; min-width: 0; }
nav { font-size: .88rem; }
nav b { display: block; margin-top: .8rem; } nav ul { margin: .2rem 0; padding: 0;
  list-style: none; columns: 16rem; } nav li { padding: .1rem 0; break-inside: avoid; }
nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }
nav .todo { color: var(--soft); }
@media (min-width: 72rem) { body { display: grid; grid-template-columns: 18rem 1fr;
    grid-template-rows: auto 1fr; }
  header, main { grid-column: 2; }
  nav { grid-area: 1 / 1 / 3 / 2; position: sticky; top: 0; height: 100vh; overflow-y: auto;
    border-right: 1px solid var(--line); } nav ul { columns: auto; } }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .6rem 0; }
h2 { font-size: 1.35rem; margin: 3rem 0 .4rem; padding-top: .6rem;
  border-top: 2px solid var(--line); }
main > h2:first-child { margin-top: 1rem; }
h3 { font-size: 1.08rem; margin: 2.2rem 0 .5rem; }
.source { font-weight: 400; font-size: .85rem; color: var(--soft);
  display: inline-block; text-wrap: balance; }
.note { margin: .5rem 0; font-size: .92rem; } .note + .note { margin-top: -.2rem; }
figure { margin: .6rem 0; }
figure a { display: block; width: max-content; min-width: min(100%, var(--least));
  max-width: max(100%, var(--least)); }
img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
.wide { overflow-x: auto; max-width: 100%; }
div.wide { width: fit-content; background-repeat: no-repeat; background-image:
    linear-gradient(to right, var(--page) 50%, transparent),
    linear-gradient(to left, var(--page) 50%, transparent),
    linear-gradient(to top, var(--page) 50%, transparent),
    linear-gradient(to right, var(--line), transparent),
    linear-gradient(to left, var(--line), transparent),
    linear-gradient(to top, var(--line), transparent);
  background-position: 0 0, 100% 0, 0 100%, 0 0, 100% 0, 0 100%;
  background-size: 2rem 100%, 2rem 100%, 100% 2rem, .7rem 100%, .7rem 100%, 100% .7rem;
  background-attachment: local, local, local, scroll, scroll, scroll; }
.tall { max-height: 34rem; overflow-y: auto; scrollbar-gutter: stable; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .55rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: top; }
thead th { position: sticky; top: 0; background: var(--page); z-index: 1; white-space: normal;
  vertical-align: bottom; line-height: 1.25; }
@media (min-width: 48rem) { tbody td:first-child { position: sticky; left: 0;
  background: var(--page); } thead th:first-child { left: 0; z-index: 2; } }
th:first-child, td:first-child { padding-left: .2rem; }
.words, .some, .long { text-align: left; } .some, .long { white-space: normal; }
.some { min-width: 7rem; } .long { min-width: 18rem; }
tbody tr.ours td { background: var(--ours); }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid; }
th[aria-sort] button::after { content: " ↑"; } th[aria-sort=descending] button::after {
  content: " ↓"; }
code { font-size: .88em; overflow-wrap: anywhere; }
.command { display: block; background: var(--card); border-radius: 6px; padding: .45rem .7rem;
  margin: .35rem 0; } .command span { white-space: nowrap; }
.missing { border-left: 3px solid var(--missing); padding: .1rem 0 .1rem .8rem; }
.missing b { color: var(--missing); }
.missing + .wide { margin-top: .8rem; }
.small { color: var(--soft); font-size: .88rem; }
@media print { nav { display: none; } .tall { max-height: none; } }
"""

SCRIPT = """
document.querySelectorAll("table").forEach(table => {
  const body = table.tBodies[0], first = [...body.rows];
  const number = text => { const found = text.replace(/,/g, "").replace("−", "-")
    .match(/^[<≤]?\\s*([+-]?\\d*\\.?\\d+)/); return found ? parseFloat(found[1]) : NaN; };
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const was = head.getAttribute("aria-sort");
      const values = first.map(row => row.cells[place].textContent.trim());
      const none = value => !value || value === "–";
      const numeric = values.every(value => none(value) || !isNaN(number(value)));
      const next = was ? (was === "ascending" ? "descending" : "ascending")
        : numeric ? "descending" : "ascending";
      const sign = next === "ascending" ? 1 : -1;
      const order = first.map((row, i) => [row, values[i]]).sort(([, a], [, b]) => {
        if (none(a) || none(b)) return none(a) - none(b);
        return sign * (numeric ? number(a) - number(b) : a.localeCompare(b));
      });
      [...table.tHead.rows[0].cells].forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", next);
      body.append(...order.map(([row]) => row));
    };
  });
});
"""


def escape(text: object) -> str:
    """Text that is never markup."""
    return html.escape(str(text))


def table_html(table: pd.DataFrame, *, ours: Collection[int] = (), whole: bool = False) -> str:
    """A table that scrolls by itself where the page is narrow, or it is long.

    Args:
        table: What is shown; its index is left out.
        ours: Numbers of the rows that are marked as ours.
        whole: Whether a long table is as long on the page.
    """
    shown = as_text(table)
    kinds = [' class="words"' if words else "" for words in word_columns(shown)]
    heads = zip(kinds, shown.columns, strict=True)
    head = "".join(f'<th scope="col"{kind}>{_heading(name)}</th>' for kind, name in heads)
    rows = []
    for number, row in enumerate(shown.itertuples(index=False)):
        cells = "".join(_cell(text, kind) for text, kind in zip(row, kinds, strict=True))
        mark = ' class="ours"' if number in ours else ""
        rows.append(f"<tr{mark}>{cells}</tr>")
    tall = " tall" if len(shown) >= LONG_TABLE and not whole else ""
    return (
        f'<div class="wide{tall}" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _heading(name: str) -> str:
    """A column's name, which may be broken where a word ends inside it: MassiveIntent."""
    return "<wbr>".join(escape(part) for part in re.split(r"(?<=[a-z]{2})(?=[A-Z])", name))


def _cell(text: str, kind: str) -> str:
    if len(text) > SOME_TEXT:
        kind = f' class="{"long" if len(text) > LONG_TEXT else "some"}"'
    return f"<td{kind}>{escape(text)}</td>"


def command_html(command: str) -> str:
    """A command in a box of its own; its options are not broken at their hyphens."""
    marked = re.sub(r"(?<!\S)--\S+", r"<span>\g<0></span>", escape(command))
    return f'<code class="command">{marked}</code>'


def page_html(title: str, introduction: str, contents: str, body: str) -> str:
    """A whole page: contents beside introduction and body, or between where there is no room."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{introduction}</header>\n"
        f'<nav aria-label="Contents">{contents}</nav>\n<main>\n{body}\n</main>\n'
        f"<script>{SCRIPT}</script>\n</body></html>\n"
    )
