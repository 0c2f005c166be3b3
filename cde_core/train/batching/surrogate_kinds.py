"""Every kind of surrogate, by its name.

    "tfidf"   "encoder:NAME"   "minilm" or any folder or name ──▶ surrogate_named ──▶ Surrogate

A model of this package (Nomic's in the paper's filter), an encoder that another package offers, or
plain TF-IDF where no model is at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ConfigError
from cde_core.plugins import plugin
from cde_core.train.batching.surrogates import Side, Surrogate, digest_of_parts
from cde_core.train.batching.tfidf import TfidfSurrogate

if TYPE_CHECKING:
    from cde_core.model.encode import TextEncoder
    from cde_core.train.data.pairs import Pairs

PLUGINS = "cde_core.surrogates"
LONGEST = 512
"""Tokens that a loaded model reads of a text."""


def surrogate_named(
    name: str, *, pairs: Pairs, device: str | None = None, max_length: int = 0
) -> Surrogate:
    """Find a surrogate by its name.

    Args:
        name: "tfidf"; "KIND:NAME", which asks the installed plug-in KIND for NAME (any encoder of
            cde-eval is "encoder:" and its name); or the folder or name of a model, which reads at
            most 512 tokens of a text and no prefix.
        pairs: What TF-IDF is fitted on.
        device: Where a model computes; None: a GPU if there is one.
        max_length: Tokens that a model reads of a text; 0: as many as it can, and at most 512.

    Raises:
        ConfigError: If there is no such plug-in, the model cannot do without a context, or a length
            is asked of what is not a model of this package.
        ModelError: If it is not a model.
    """
    if max_length and not is_model(name):
        raise ConfigError(
            f"surrogate_length is {max_length}, but {name} reads texts as it does; leave it at 0."
        )
    if name == "tfidf":
        return TfidfSurrogate(pairs)
    if not is_model(name):
        kind, _, argument = name.partition(":")
        found: Surrogate = plugin(PLUGINS, kind)(argument, device)
        return found
    import cde_core

    return ModelSurrogate(cde_core.load(name, device=device, cache=None), max_length=max_length)


def is_model(name: str) -> bool:
    """Whether a name is that of a model of this package, and not of a plug-in or of TF-IDF."""
    return name != "tfidf" and (":" not in name or Path(name).expanduser().exists())


class ModelSurrogate:
    """A loaded model, without prefixes and without context."""

    def __init__(self, encoder: TextEncoder, *, max_length: int = 0) -> None:
        """Take a model over, to read texts of `max_length` tokens at most; 0: of `LONGEST`.

        Raises:
            ConfigError: If it cannot do without a context.
        """
        from cde_core.model.contextual import ContextualEncoder
        from cde_core.tokens import TextReader

        model, reader = encoder.model, encoder.reader
        if isinstance(model, ContextualEncoder) and not model.config.null_context:
            raise ConfigError(
                f"{encoder.name or 'The surrogate'} cannot embed without a context, which a "
                "surrogate does; name a model with null_context, or a plain encoder."
            )
        longest = max_length or LONGEST
        if reader.max_length > longest:
            per_token = (reader.characters or 0) // reader.max_length
            encoder.reader = TextReader(
                reader.tokenizer, max_length=longest, characters_per_token=per_token
            )
        self._encoder = encoder

    def encode(self, texts: Sequence[str], side: Side) -> NDArray[np.float32]:
        """Vectors (n, d); both sides alike."""
        return self._encoder.encode(texts)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all weights and of how texts are read."""
        from cde_core.model.config import to_dict
        from cde_core.model.fingerprint import digest_of_weights

        model, reader = self._encoder.model, self._encoder.reader
        shape = to_dict(model.config)
        for name in ("backbone_name", "logit_scale"):  # neither decides a vector
            del shape[name]
        limits = [reader.max_length, reader.characters]
        return digest_of_parts(digest_of_weights(model), shape, limits, reader.tokenizer.to_str())
