"""A judge's vectors of the distinct texts of a group, on disk, and continued where they end.

    Group, Judge ──▶ read_group ──▶ queries.npy (Q, d), documents.npy (P, d)

Vectors are made by the same code as a surrogate's (batching/surrogates.py): what is embedded is
recorded every few thousand texts, and a killed run goes on there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ModelError
from cde_core.train.batching.growing_array import opened
from cde_core.train.batching.surrogates import Column, Progress, embed_column
from cde_core.train.rivals.groups import Group
from cde_core.train.rivals.judges import Judge


@dataclass(frozen=True, slots=True)
class Reading:
    """What a judge makes of a group: unit rows, memory-mapped."""

    queries: NDArray[np.float32]
    """Of the distinct queries (Q, d)."""

    documents: NDArray[np.float32]
    """Of the distinct documents (P, d)."""


def read_group(
    group: Group, judge: Judge, folder: Path, progress: Progress | None = None
) -> Reading:
    """Embed all distinct texts of a group, or find what was embedded before.

    Args:
        group: n pairs.
        judge: What embeds them.
        folder: Of this group, this judge and these pairs alone.
        progress: Told how many more of 2n texts are done; copies count when their side is.

    Raises:
        ModelError: If the judge gives something else than one finite vector per text, or vectors
            of two widths.
    """
    columns = (
        Column("queries", len(group.first_query), "query", group.queries),
        Column("documents", len(group.first_document), "document", group.documents),
    )
    files = [folder / f"{column.name}.npy" for column in columns]
    found = [opened(f, rows=c.rows) for f, c in zip(files, columns, strict=True)]
    surrogate = None
    folder.mkdir(parents=True, exist_ok=True)
    for column, file, array in zip(columns, files, found, strict=True):
        if array is None:
            file.unlink(missing_ok=True)  # damaged
            surrogate = surrogate or judge.of(group)
            embed_column(column, surrogate, folder, progress)
        elif progress:
            progress(column.rows)
        if progress and len(group.rows) > column.rows:
            progress(len(group.rows) - column.rows)
    queries, documents = (np.load(file, mmap_mode="r").view(np.ndarray) for file in files)
    if queries.shape[1] != documents.shape[1]:
        raise ModelError(
            f"Queries are {queries.shape[1]} wide and documents {documents.shape[1]}, so they "
            "cannot be compared; name another model."
        )
    return Reading(queries, documents)
