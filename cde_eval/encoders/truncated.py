"""An encoder by the first of its dimensions alone: what a Matryoshka model is made for.

    texts ──▶ encoder ──▶ vectors (n, h) ──▶ the first N dimensions, scaled to length one ──▶ (n, N)

`truncated:64:NAME` is a model like any other, so every command scores it: beside the whole one, and
beside a plain model that was truncated too. The whole vectors are kept on disk as ever, so a second
number of dimensions embeds nothing again.

Source: Kusupati et al. (2022), Matryoshka representation learning, https://arxiv.org/abs/2205.13147
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cde_core.errors import ModelError
from cde_core.text import Purpose
from cde_eval.encoders.kept import kept
from cde_eval.encoders.protocol import Encoder, Ranker, ReadsOnce
from cde_eval.encoders.registry import LoadOptions, load_encoder
from cde_eval.engines.choose import engine_named
from cde_eval.engines.here import Engine, Here
from cde_eval.vectors import Vectors, unit_length


class Truncated:
    """The first dimensions of another encoder's vectors; its context is the other's."""

    def __init__(self, base: Encoder, dimensions: int, *, engine: Engine | None = None) -> None:
        self.base = base
        self.dimensions = dimensions
        self.engine = engine or Here()
        self._kept_base = kept(base, self.engine)
        self.name = f"{base.name}-first-{dimensions}"
        self.revision = base.revision
        self.context_size, self.similarity = base.context_size, base.similarity
        self.task_types = base.task_types
        self.settings = base.settings

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Any:
        """What the whole encoder reads."""
        return self._kept_base.read_context(documents, purpose=purpose)

    def read_once(self, documents: Sequence[str], *, purpose: Purpose) -> Any:
        """The same, for a context that will not be asked for again."""
        if isinstance(self.base, ReadsOnce):
            return self.base.read_once(documents, purpose=purpose)
        return self.read_context(documents, purpose=purpose)

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """Vectors (n, dimensions), of length one where they are compared by cosine.

        Raises:
            ModelError: If the encoder has fewer dimensions.
        """
        vectors = self._kept_base.encode(texts, purpose=purpose, context=context)
        if vectors.shape[1] < self.dimensions:
            raise ModelError(
                f"The first {self.dimensions} dimensions of {self.base.name} were asked for, but "
                f"it has {vectors.shape[1]}; the most that works is {vectors.shape[1]}."
            )
        first = vectors[:, : self.dimensions]
        return unit_length(first) if self.similarity == "cosine" else first.copy()


def load(argument: str, options: LoadOptions) -> Truncated:
    """Any encoder by its first N dimensions: truncated:64:minilm; MiniLM by default.

    Raises:
        ModelError: If no number is given, or the encoder has no vectors.
    """
    number, _, model = argument.partition(":")
    if not number.isdecimal() or int(number) < 1:
        raise ModelError(
            f"'truncated:{argument}' does not say how many dimensions are kept; write "
            "truncated:64:MODEL."
        )
    model = model or "minilm"
    base = load_encoder(model, options)
    if isinstance(base, Ranker):
        raise ModelError(f"{model} ranks documents without vectors; nothing can be truncated.")
    return Truncated(base, int(number), engine=engine_named(model, options))
