"""A teacher's scores of every document and every hard negative, for its pair's query.

    Pairs ──▶ apart: N + M pairs ──▶ Teacher ──▶ Scored (N), (M) ──┬──▶ with_scores: N pairs
                                                                    └──▶ each_apart: N + M pairs

With its scores beside it a pair says how much better its document is than a negative, and that a
negative is none: what distillation learns. Apart, each text is a pair of its own with a score and
a label, which is what objectives on single pairs learn: CoSENT and classification.

Scores are found group by group as filter and mine find theirs (each_pair.py), and recorded in the
same way.

Source: Wang et al. (2022), E5, section 4.3, https://arxiv.org/abs/2212.03533
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cde_core.train.batching.surrogates import Progress, digest_of_parts
from cde_core.train.data.pairs import IS_DOCUMENT, IS_NEGATIVE, Pair, Pairs
from cde_core.train.rivals.each_pair import for_each_pair
from cde_core.train.rivals.teachers import Scores, Teacher

FORMAT = "scores 1"


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """What a teacher says of N pairs with M hard negatives."""

    documents: Scores
    """Of every pair's document (N,)."""

    negatives: Scores
    """Of every negative (M,), in the order of the pairs' own numbers."""


def scores_of(
    pairs: Pairs, teacher: Teacher, *, cache: Path, progress: Progress | None = None
) -> Scored:
    """Have a teacher score all texts of all pairs, or find what it said before.

    A killed run goes on after the last texts that it recorded.

    Args:
        pairs: N pairs with M hard negatives between them.
        teacher: Who scores.
        cache: Scores, and what the teacher read for them, lie in `scores` and `readings` below
            this folder.
        progress: Told how many more of 2 (N + M) texts are read.

    Raises:
        DataError: If there are no pairs.
        ModelError: If what the teacher gives is not usable.
    """
    apart = pairs.apart()
    asked = digest_of_parts(FORMAT, apart.digest, teacher.fingerprint)
    found = for_each_pair(
        apart,
        teacher.asking(apart, cache, progress),
        across_domains=False,
        answers=cache / "scores" / asked,
        dtype=np.float64,
        at_once=teacher.at_once,
        progress=progress,
    )[:, 0]
    of_documents = apart.label_of == apart.labels.index(IS_DOCUMENT)
    return Scored(documents=found[of_documents], negatives=found[~of_documents])


def with_scores(pairs: Pairs, scored: Scored) -> Iterator[Pair]:
    """The same pairs, with a teacher's scores of the document and of each negative."""
    for pair, own, of_negatives in _each(pairs, scored):
        yield dataclasses.replace(pair, scores=(own, *of_negatives))


def each_apart(pairs: Pairs, scored: Scored) -> Iterator[Pair]:
    """Every document and every negative as a pair of its own, with its score and a label.

    The label is "1" of documents and "0" of negatives. A pair's own score and label are left out.
    """
    for pair, own, of_negatives in _each(pairs, scored):
        yield Pair(pair.query, pair.document, (), pair.domain, own, IS_DOCUMENT)
        for negative, score in zip(pair.negatives, of_negatives, strict=True):
            yield Pair(pair.query, negative, (), pair.domain, score, IS_NEGATIVE)


def _each(pairs: Pairs, scored: Scored) -> Iterator[tuple[Pair, float, list[float]]]:
    ends = pairs.first_negative
    for row, pair in enumerate(pairs):
        negatives = scored.negatives[ends[row] : ends[row + 1]].tolist()
        yield pair, float(scored.documents[row]), negatives
