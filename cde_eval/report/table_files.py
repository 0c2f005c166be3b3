"""Tables as text: Markdown and CSV files, and what stands in a cell.

    DataFrame ──▶ save_table ──▶ tables/NAME.md · tables/NAME.csv

The same table gives the same bytes. Numbers stand to the right, words to the left.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from cde_eval.results import write_atomically

WORD_COLUMNS = {"run", "task", "type", "measure", "model", "corpus against"}

_NUMBER = re.compile(r"[<≤]?[+\-−]?[\d.,]*\d[\d.,]*\s?%?( ± [\d.]+)?|[–-]?")


def cell_text(value: Any) -> str:
    """What a cell shows: text as it is, numbers to four figures, nothing where there is nothing."""
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """The table with every cell as it is shown."""
    columns = [str(column) for column in table.columns]
    rows = [[cell_text(value) for value in row] for row in _rows(table)]
    return pd.DataFrame(rows, columns=columns, dtype=str)


def word_columns(table: pd.DataFrame) -> list[bool]:
    """For each column of a text table, whether it holds words."""
    cells = [[text for text in table[name] if text] for name in table.columns]
    return [
        name in WORD_COLUMNS
        or sum(not _NUMBER.fullmatch(text) for text in filled) > len(filled) / 2
        for name, filled in zip(table.columns, cells, strict=True)
    ]


def to_markdown(table: pd.DataFrame) -> str:
    """A table in Markdown, numbers to the right."""
    shown = as_text(table)
    text = shown.to_markdown(
        index=False,
        disable_numparse=True,
        colalign=["left" if words else "right" for words in word_columns(shown)],
    )
    return f"{text}\n"


def save_table(table: pd.DataFrame, name: str, folder: Path) -> tuple[Path, Path]:
    """Write a table as Markdown and CSV, each whole or not at all.

    Args:
        table: What to write; its index is left out.
        name: Of the files, without ending.
        folder: Where they go.

    Returns:
        The Markdown file and the CSV file.
    """
    markdown, plain = (folder / f"{name}.{ending}" for ending in ("md", "csv"))
    write_atomically(markdown, to_markdown(table))
    write_atomically(plain, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    return markdown, plain


def _rows(table: pd.DataFrame) -> list[list[Any]]:
    # Column by column, since a row of a frame would turn its whole numbers into fractions.
    columns = [table.iloc[:, place].tolist() for place in range(table.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []
