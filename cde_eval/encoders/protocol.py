"""What the harness asks of an encoder.

    documents ──▶ read_context ──▶ context ─┐
                                            ├──▶ encode ──▶ vectors
                      texts, purpose ───────┘

An encoder turns texts into vectors. A *contextual* encoder first reads documents of the corpus it
will work in; what it made of them is its context, a value that only the encoder itself looks into.
For a contextual transformer that value holds first-stage vectors, for BM25 an IDF table, for a
centred biencoder a mean: the harness draws the documents, carries the value and records both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from cde_core.text import Purpose
from cde_eval.ranking import Ranking
from cde_eval.vectors import Rows, Vectors

Similarity = Literal["cosine", "dot"]


@runtime_checkable
class Encoder(Protocol):
    """A model that embeds texts, perhaps conditioned on documents it has read."""

    name: str
    """`organisation/model`, as results are filed under it."""

    revision: str
    """Names the exact weights: a hub commit, or a hash of the files."""

    context_size: int | None
    """Documents it reads unless told otherwise: 0 reads none (context-free), None reads all."""

    similarity: Similarity
    """How two of its vectors are compared."""

    task_types: frozenset[str] | None
    """MTEB task types it can do; None for all."""

    settings: dict[str, str]
    """What else decides its vectors (precision, prompts); filed with every result."""

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Any:
        """Read a sample of a corpus; the result goes into `encode` unopened.

        Args:
            documents: Texts without prefix.
            purpose: What the documents are for, which decides their prefix.
        """
        ...

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """Embed texts.

        Args:
            texts: Texts without prefix.
            purpose: What they are for.
            context: What `read_context` returned; None is the null context.

        Returns:
            One row per text, shape (n, dim), as the model itself scales them.

        Raises:
            ContextError: If `context` is None and the encoder cannot work without one.
            TaskError: If the encoder cannot do this type of task.
        """
        ...


@runtime_checkable
class Keepable(Protocol):
    """An encoder whose vectors may be kept on disk, because it can say what decides them."""

    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str] | None:
        """What decides a vector besides the text, the model's name, revision and settings.

        Args:
            purpose: What the texts are for, which may decide a prompt.
            context: What `read_context` returned; None is the null context.

        Returns:
            Names and values, for people and for the hash that they are kept under; None where the
            encoder cannot vouch for it, and nothing is kept.
        """
        ...


@runtime_checkable
class ReadsOnce(Protocol):
    """An encoder that remembers what it reads, unless it is told that it will not come back."""

    def read_once(self, documents: Sequence[str], *, purpose: Purpose) -> Any:
        """As `read_context`, for a context that will not be asked for again."""
        ...


@runtime_checkable
class Ranker(Protocol):
    """An encoder that ranks documents itself, because it has no dense vectors to compare."""

    def rank(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        *,
        top_k: int,
        candidates: Sequence[Rows] | None = None,
        context: Any = None,
    ) -> Ranking:
        """Score documents for each query.

        Args:
            queries: Query texts.
            documents: The corpus.
            top_k: Documents to keep per query.
            candidates: Where given, the only rows that each query may rank; every one is scored.
            context: What `read_context` returned; None is the null context.
        """
        ...
