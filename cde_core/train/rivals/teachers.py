"""Who says how well a document answers a query: a cross-encoder, or a judge by its cosines.

    "cross-encoder:NAME" ──▶ load_cross_encoder ──▶ Logits ─┐
    "minilm", a folder, … ──▶ judge_named ──▶ Cosines ──────┴──▶ Teacher ──asking──▶ Ask

A cross-encoder is asked pair by pair. A judge reads a group first, every distinct text once, and a
contextual one in the context of documents of the group, negatives among them. Its cosines lie much
closer together than logits: a difference of 0.05 is large, and a student is to be told so by
dividing them by a temperature of about that (`loss.teacher_temperature`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cde_core.train.batching.surrogates import Progress, digest_of_parts
from cde_core.train.data.pairs import Pairs
from cde_core.train.rivals.cross_encoder import CrossEncoder, load_cross_encoder
from cde_core.train.rivals.each_pair import Answer, Ask, reading_first
from cde_core.train.rivals.exact_search import scores_of_own
from cde_core.train.rivals.groups import Group, Numbers
from cde_core.train.rivals.judges import Judge, judge_named
from cde_core.train.rivals.readings import Reading

CROSS_ENCODER = "cross-encoder:"
"""What a cross-encoder's name begins with."""

PAIRS_AT_ONCE = 1_024
"""Pairs that a cross-encoder reads between two records: enough to sort them by length; a large one
on a slow machine takes minutes for them."""

Scores = NDArray[np.float64]


class Teacher(Protocol):
    """Whoever scores a document for a query."""

    @property
    def temperature(self) -> float:
        """What its scores should be divided by to be logits, roughly."""

    @property
    def at_once(self) -> int | None:
        """Pairs to ask of it between two records; None: as many as of any search."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its scores, beside the group."""

    def asking(
        self, pairs: Pairs, cache: Path, progress: Progress | None
    ) -> AbstractContextManager[Ask]:
        """Ready to be asked for the scores (m, 1) of pairs' own documents.

        Args:
            pairs: N pairs.
            cache: What it reads is kept below this folder.
            progress: Told how many more of 2N texts are read.
        """


@dataclass(frozen=True, slots=True)
class Cosines:
    """A judge, by the cosine of a query and a document."""

    judge: Judge
    temperature: float = 0.05
    at_once: int | None = None

    @property
    def fingerprint(self) -> str:
        """The judge's."""
        return self.judge.fingerprint

    def asking(
        self, pairs: Pairs, cache: Path, progress: Progress | None
    ) -> AbstractContextManager[Ask]:
        """Reads each group first; its vectors are in `readings`, where others ask for them too."""
        read = digest_of_parts(pairs.digest, self.fingerprint, False)
        return reading_first(self.judge, _cosines, cache / "readings" / read, progress)


def _cosines(group: Group, reading: Reading) -> Answer:
    def answer(positions: Numbers) -> Scores:
        queries = reading.queries[group.query_of[positions]]
        documents = reading.documents[group.document_of[positions]]
        return scores_of_own(queries, documents)[:, None]

    return answer


@dataclass(frozen=True, slots=True)
class Logits:
    """A cross-encoder, by its logit."""

    encoder: CrossEncoder
    temperature: float = 1.0

    @property
    def at_once(self) -> int | None:
        """`PAIRS_AT_ONCE`."""
        return PAIRS_AT_ONCE

    @property
    def fingerprint(self) -> str:
        """The cross-encoder's."""
        return self.encoder.fingerprint

    def asking(
        self, pairs: Pairs, cache: Path, progress: Progress | None
    ) -> AbstractContextManager[Ask]:
        """Reads nothing beforehand."""

        def ask(group: Group) -> Answer:
            return _Reading(self.encoder, group, progress)

        return nullcontext(ask)


class _Reading:
    """A cross-encoder that reads the pairs of a group in their order."""

    def __init__(self, encoder: CrossEncoder, group: Group, progress: Progress | None) -> None:
        self._encoder, self._group, self._progress = encoder, group, progress
        self._told = 0

    def __call__(self, positions: Numbers) -> Scores:
        rows = self._group.rows[positions]
        pairs = self._group.pairs
        self._tell(int(positions[0]))  # what a killed run had done
        scores = self._encoder.score(
            pairs.queries(rows), pairs.documents(rows), lambda more: self._tell(self._told + more)
        )
        self._tell(int(positions[-1]) + 1)  # and copies
        return scores[:, None]

    def _tell(self, pairs: int) -> None:
        """Say that so many pairs of the group are done."""
        if self._progress and pairs > self._told:
            self._progress(2 * (pairs - self._told))
        self._told = max(self._told, pairs)


def teacher_named(
    name: str,
    *,
    pairs: Pairs,
    device: str | None = None,
    prefixes: tuple[str, str] | None = None,
    max_length: int = 0,
    seed: int = 0,
) -> Teacher:
    """Find a teacher by its name.

    Args:
        name: "cross-encoder:" and a folder, a hub name, or NAME@REVISION; otherwise as
            `judge_named` takes it.
        pairs: What TF-IDF is fitted on.
        device: Where a model computes; None: a GPU if there is one.
        prefixes: Of queries and of documents; None: the model's own, and none of a cross-encoder.
        max_length: Tokens that a model reads of a text, a cross-encoder of both; 0: as many as it
            can.
        seed: Of the draw of context documents.

    Raises:
        ConfigError: If there is no such plug-in, it cannot read texts as is asked, or it gives
            several numbers for a pair.
        ModelError: If it is not a model, or no cross-encoder.
    """
    if name.startswith(CROSS_ENCODER):
        named = name.removeprefix(CROSS_ENCODER)
        return Logits(
            load_cross_encoder(named, device=device, max_length=max_length, prefixes=prefixes)
        )
    judge = judge_named(
        name, pairs=pairs, device=device, prefixes=prefixes, max_length=max_length, seed=seed
    )
    return Cosines(judge)
