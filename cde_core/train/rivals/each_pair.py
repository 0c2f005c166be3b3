"""An answer for every pair from a search among its group's documents, recorded as they are found.

    groups ──▶ read_group ──▶ search, some thousand pairs at a time ──▶ answers.npy ──▶ (N, w)

Both the filter and the mining of negatives are this loop. A killed run goes on with the next pairs
of the group that it was at: a text is embedded once, and an answer once recorded is not asked for
again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cde_core.errors import DataError
from cde_core.locks import one_process_at_a_time
from cde_core.train.batching.growing_array import GrowingArray, opened
from cde_core.train.batching.surrogates import Progress
from cde_core.train.data.pairs import Pairs
from cde_core.train.rivals.groups import Group, Numbers, rows_by_domain
from cde_core.train.rivals.judges import Judge
from cde_core.train.rivals.readings import Reading, read_group

PAIRS_AT_ONCE = 4_096
"""Pairs between two records: each reads the documents of its group once."""

Answer = Callable[[Numbers], NDArray[Any]]
"""From positions in a group (m,) to what is found for those pairs (m, w)."""


def for_each_pair(
    pairs: Pairs,
    judge: Judge,
    answer_in: Callable[[Group, Reading], Answer],
    *,
    across_domains: bool,
    readings: Path,
    answers: Path,
    dtype: DTypeLike,
    progress: Progress | None = None,
) -> NDArray[Any]:
    """Find an answer for every pair, or what was found before.

    Args:
        pairs: N pairs.
        judge: Who embeds them.
        answer_in: Prepares the search in a group, and gives the function that searches; its answers
            must not depend on which pairs are asked together.
        across_domains: Whether all pairs are one group.
        readings: Folder of the judge's vectors of these pairs, grouped like this.
        answers: Folder of these answers.
        dtype: Of the answers.
        progress: Told how many more of 2N texts are read.

    Returns:
        Answers in the order of the pairs (N, w).

    Raises:
        DataError: If there are no pairs.
        ModelError: If the judge's vectors are not usable.
    """
    if not len(pairs):
        raise DataError("There are no pairs; name sources that hold some.")
    groups = rows_by_domain(pairs, across_domains=across_domains)
    answers.mkdir(parents=True, exist_ok=True)
    file = answers / "answers.npy"
    with one_process_at_a_time(answers / "lock"):
        if opened(file, rows=len(pairs), dtype=dtype) is None:
            file.unlink(missing_ok=True)
            readings.mkdir(parents=True, exist_ok=True)
            with one_process_at_a_time(readings / "lock"):
                _find(pairs, groups, judge, answer_in, readings, file, dtype, progress)
        in_order = np.load(file, mmap_mode="r")
    found = np.empty_like(in_order)
    found[np.concatenate([rows for _, rows in groups])] = in_order
    return np.asarray(found)


def _find(
    pairs: Pairs,
    groups: list[tuple[str, Numbers]],
    judge: Judge,
    answer_in: Callable[[Group, Reading], Answer],
    readings: Path,
    file: Path,
    dtype: DTypeLike,
    progress: Progress | None,
) -> None:
    with GrowingArray(file, rows=len(pairs), dtype=dtype) as growing:
        begin = 0
        for number, (domain, rows) in enumerate(groups):
            end = begin + len(rows)
            if growing.done < end:
                group = Group.of(pairs, rows, number=number, domain=domain)
                reading = read_group(group, judge, readings / f"group-{number:06d}", progress)
                answer = answer_in(group, reading)
                while growing.done < end:
                    stop = min(growing.done + PAIRS_AT_ONCE, end)
                    growing.append(answer(np.arange(growing.done, stop) - begin))
            elif progress:
                progress(2 * len(rows))
            begin = end
