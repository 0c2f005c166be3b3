"""The words of a text, and the row that each has in every layer of a model.

    text ──▶ words (which tokens are they?)  ─┐
         ──▶ rows (layers + 1, tokens, dim)  ─┴▶ a word's row: the mean of its tokens' rows

Layer 0 is what goes into the first layer. It works for what is a transformer inside: models of
sentence-transformers, decoders and our own, which see their context in every layer.

Source: Ethayarajh (2019), https://arxiv.org/abs/1909.00512
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Encoding

from cde_core.model.layer_rows import rows_of_layers
from cde_core.text import Purpose
from cde_eval.encoders.biencoder import Biencoder
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.decoder import PREFIXES, Decoder
from cde_eval.encoders.kept import unkept
from cde_eval.encoders.protocol import Encoder
from cde_eval.vectors import Vectors


class Word(NamedTuple):
    """A word of a text, and its tokens: from `first` up to but without `end`."""

    text: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class LayerReader:
    """A model's layers, for texts with one purpose in one context."""

    tokens: Callable[[Sequence[str]], list[Encoding]]
    """What the tokenizer makes of texts, their prefix in front."""

    forward: Callable[[str, list[int]], Vectors]
    """From a text and its token ids to its rows (layers + 1, tokens, dim)."""

    prefix: str

    def words(self, texts: Sequence[str]) -> list[list[Word]]:
        """The words of each text, in lower case and in order; those of the prefix are left out."""
        # Offsets count from the beginning of the prefix.
        return [
            _words(self.prefix + text, encoded, len(self.prefix))
            for text, encoded in zip(texts, self.tokens(texts), strict=True)
        ]

    def rows(self, text: str, words: Sequence[Word]) -> Vectors:
        """Rows (layers + 1, words, dim) of some words of a text."""
        rows = self.forward(text, self.tokens([text])[0].ids)
        return np.stack([rows[:, one.first : one.end].mean(axis=1) for one in words], axis=1)


def layer_reader(encoder: Encoder, purpose: Purpose, context: Any = None) -> LayerReader | None:
    """How to look into a model's layers; None where it has none that can be looked into.

    Args:
        encoder: Any encoder.
        purpose: What the texts are for, which decides their prefix.
        context: What the encoder has read.
    """
    encoder = unkept(encoder)
    if isinstance(encoder, Cde):
        return _of_ours(encoder, purpose, context)
    if isinstance(encoder, Decoder):
        prefix = PREFIXES[purpose.role]
        return _of_transformers(encoder.model, encoder.tokenizer, prefix, encoder.max_length)
    if not isinstance(encoder, Biencoder):
        return None
    model = getattr(encoder.model[0], "auto_model", None)
    if model is None:
        return None
    longest = encoder.model.max_seq_length or 512
    prefix = encoder.prompt_for(purpose) or ""
    return _of_transformers(model, encoder.model.tokenizer, prefix, longest)


def _of_ours(encoder: Cde, purpose: Purpose, context: Any) -> LayerReader:
    ours = encoder.model
    prefix = ours.prefix(purpose)

    def tokens(texts: Sequence[str]) -> list[Encoding]:
        cut = [(prefix + text)[: ours.reader.characters] for text in texts]
        return list(ours.reader.tokenizer.encode_batch(cut))

    def forward(text: str, ids: list[int]) -> Vectors:
        with rows_of_layers(ours.model.backbone) as layers:
            ours.encode([text], purpose=purpose, context=context)
        # With joint attention, the rows of the context stand in front of the text's.
        return np.stack([rows[0, -len(ids) :].float().cpu().numpy() for rows in layers])

    return LayerReader(tokens, forward, prefix)


def _of_transformers(model: Any, tokenizer: Any, prefix: str, longest: int) -> LayerReader | None:
    if not getattr(tokenizer, "is_fast", False):  # others do not say which tokens are a word
        return None

    def tokens(texts: Sequence[str]) -> list[Encoding]:
        prompted = [prefix + text for text in texts]
        return list(tokenizer(prompted, truncation=True, max_length=longest).encodings)

    def forward(text: str, ids: list[int]) -> Vectors:
        given = torch.tensor([ids], device=model.device)
        with torch.inference_mode():
            layers = model(
                input_ids=given,
                attention_mask=torch.ones_like(given),
                output_hidden_states=True,
            ).hidden_states
        return np.stack([rows[0].float().cpu().numpy() for rows in layers])

    return LayerReader(tokens, forward, prefix)


def _words(text: str, encoded: Encoding, begins: int) -> list[Word]:
    """Words of a tokenised text from a place in it; nothing but letters is a word here."""
    words = []
    ids = encoded.word_ids
    for first, number in enumerate(ids):
        if number is None or (first and ids[first - 1] == number):
            continue
        end = next((i for i in range(first, len(ids)) if ids[i] != number), len(ids))
        start, stop = encoded.offsets[first][0], encoded.offsets[end - 1][1]
        surface = text[start:stop].strip().lower()
        if start >= begins and surface.isalpha():
            words.append(Word(surface, first, end))
    return words
