"""What an engine does, and the one that is this process.

    blocks of texts ──▶ Engine.embed  ──▶ (number of the block, vectors), in any order
    queries, corpus ──▶ Engine.search ──▶ Ranking

An engine decides where the work is done and nothing else: what it gives does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from cde_core.text import Purpose
from cde_eval.encoders.protocol import Encoder
from cde_eval.ranking import Ranking
from cde_eval.search import nearest
from cde_eval.vectors import RowsOfVectors, Vectors


class Engine(Protocol):
    """Where blocks of texts are embedded, and blocks of vectors searched."""

    def embed(
        self, encoder: Encoder, blocks: Iterator[list[str]], purpose: Purpose, context: Any
    ) -> Iterator[tuple[int, Vectors]]:
        """The number of each block with its vectors, in any order.

        Args:
            encoder: The encoder, as this process has it.
            blocks: Texts; read as they are needed, so that not all are in memory.
            purpose: What the texts are for.
            context: What the encoder's `read_context` returned.
        """
        ...

    def search(
        self, queries: Vectors, documents: RowsOfVectors, top_k: int, *, device: str
    ) -> Ranking:
        """What `nearest` gives, for the same arguments."""
        ...


class Here:
    """The engine that is this process."""

    def embed(
        self, encoder: Encoder, blocks: Iterator[list[str]], purpose: Purpose, context: Any
    ) -> Iterator[tuple[int, Vectors]]:
        """Blocks one after the other."""
        for number, texts in enumerate(blocks):
            yield number, encoder.encode(texts, purpose=purpose, context=context)

    def search(
        self, queries: Vectors, documents: RowsOfVectors, top_k: int, *, device: str
    ) -> Ranking:
        """The nearest documents, exactly."""
        return nearest(queries, documents, top_k, device=device)
