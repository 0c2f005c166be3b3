"""An answer for every pair from among its group, recorded as answers are found.

    reading_first: group ──▶ read_group ──▶ search ─┐
    a cross-encoder: group ─────────────────────────┴──▶ Ask ──▶ for_each_pair ──▶ (N, w)

The filter, the mining of negatives and a teacher's scores are all this loop: who is asked prepares
for a group, and then answers for some pairs of it at a time. A killed run goes on with the next
pairs of the group that it was at: a text is embedded once, and an answer once recorded is not
asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
"""Pairs between two records: each search reads the documents of its group once."""

ANSWERS = "answers.npy"

Answer = Callable[[Numbers], NDArray[Any]]
"""From positions in a group (m,) to what is found for those pairs (m, w). It must not depend on
which pairs are asked together."""

Ask = Callable[[Group], Answer]
"""Prepares for a group."""


@contextmanager
def reading_first(
    judge: Judge,
    answer_in: Callable[[Group, Reading], Answer],
    folder: Path,
    progress: Progress | None = None,
) -> Iterator[Ask]:
    """Ask what a judge's vectors of the whole group tell.

    Args:
        judge: Who embeds a group's texts.
        answer_in: What is made of its vectors.
        folder: Of the judge's vectors of these pairs, grouped like this.
        progress: Told how many more of 2N texts are read.

    Raises:
        ModelError: When a group is asked for, if the vectors are not usable.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def ask(group: Group) -> Answer:
        reading = read_group(group, judge, folder / f"group-{group.number:06d}", progress)
        return answer_in(group, reading)

    with one_process_at_a_time(folder / "lock"):
        yield ask


def for_each_pair(
    pairs: Pairs,
    asking: AbstractContextManager[Ask],
    *,
    across_domains: bool,
    answers: Path,
    dtype: DTypeLike,
    at_once: int | None = None,
    progress: Progress | None = None,
) -> NDArray[Any]:
    """Find an answer for every pair, or what was found before.

    Args:
        pairs: N pairs.
        asking: Who is asked; entered only where something is yet to be found.
        across_domains: Whether all pairs are one group.
        answers: Folder of these answers.
        dtype: Of the answers.
        at_once: Pairs between two records; None: `PAIRS_AT_ONCE`.
        progress: Told 2n, when a group of n pairs is found to be done.

    Returns:
        Answers in the order of the pairs (N, w).

    Raises:
        DataError: If there are no pairs.
    """
    if not len(pairs):
        raise DataError("There are no pairs; name sources that hold some.")
    groups = rows_by_domain(pairs, across_domains=across_domains)
    answers.mkdir(parents=True, exist_ok=True)
    file = answers / ANSWERS
    with one_process_at_a_time(answers / "lock"):
        if opened(file, rows=len(pairs), dtype=dtype) is None:
            file.unlink(missing_ok=True)
            with asking as ask, GrowingArray(file, rows=len(pairs), dtype=dtype) as growing:
                _find(pairs, groups, ask, growing, at_once or PAIRS_AT_ONCE, progress)
        in_order = np.load(file, mmap_mode="r")
    found = np.empty_like(in_order)
    found[np.concatenate([rows for _, rows in groups])] = in_order
    return np.asarray(found)


def _find(
    pairs: Pairs,
    groups: list[tuple[str, Numbers]],
    ask: Ask,
    growing: GrowingArray,
    at_once: int,
    progress: Progress | None,
) -> None:
    begin = 0
    for number, (domain, rows) in enumerate(groups):
        end = begin + len(rows)
        if growing.done < end:
            answer = ask(Group.of(pairs, rows, number=number, domain=domain))
            while growing.done < end:
                stop = min(growing.done + at_once, end)
                growing.append(answer(np.arange(growing.done, stop) - begin))
        elif progress:
            progress(2 * len(rows))
        begin = end
