"""What of a text a model reads, and where its tokens stand.

    text ──▶ the model's own prefix, limits and tokenizer ──▶ (start, end) of each token it reads

A passage that is moved behind a model's limit is not embedded badly, it is not read at all. The two
must be told apart, so each result says how much of the passage was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cde_core.text import Purpose
from cde_eval.encoders.biencoder import Biencoder
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.centred import Centred
from cde_eval.encoders.decoder import PREFIXES, Decoder
from cde_eval.encoders.kept import unkept
from cde_eval.encoders.protocol import Encoder

Spans = list[tuple[int, int]]
"""Start and end of each token, in characters of the text."""

Reader = Callable[[str], Spans]

WORD = re.compile(r"\S+")


def reader_of(encoder: Encoder, purpose: Purpose) -> Reader | None:
    """How an encoder reads texts with this purpose; None where it cannot be asked."""
    inner = unkept(encoder)
    if isinstance(inner, Centred):
        return reader_of(inner.base, purpose)
    if isinstance(inner, Cde):
        return _core_reader(inner, purpose)
    if isinstance(inner, Biencoder):
        return _sentence_transformers_reader(inner, purpose)
    if isinstance(inner, Decoder):
        return _decoder_reader(inner, purpose)
    return None


def words(text: str) -> Spans:
    """The words between white space, for encoders whose tokens are not known."""
    return [found.span() for found in WORD.finditer(text)]


def share_read(spans: Spans, start: int, end: int) -> float:
    """How much of a passage stands before the end of the last token that is read, from 0 to 1."""
    limit = spans[-1][1] if spans else 0
    return min(max(limit - start, 0), end - start) / (end - start)


def _core_reader(encoder: Cde, purpose: Purpose) -> Reader:
    prefix, reader = encoder.model.prefix(purpose), encoder.model.reader

    def read(text: str) -> Spans:
        offsets = reader.tokenizer.encode((prefix + text)[: reader.characters]).offsets
        return _of_text(offsets, len(prefix))

    return read


def _sentence_transformers_reader(encoder: Biencoder, purpose: Purpose) -> Reader | None:
    prompt = encoder.prompt_for(purpose) or ""
    tokenizer: Any = encoder.model.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        return None
    longest = encoder.model.max_seq_length

    def read(text: str) -> Spans:
        asked = {"truncation": longest is not None, "max_length": longest}
        found = tokenizer(prompt + text, return_offsets_mapping=True, **asked)
        return _of_text(found["offset_mapping"], len(prompt))

    return read


def _decoder_reader(encoder: Decoder, purpose: Purpose) -> Reader | None:
    prefix, end = PREFIXES[purpose.role], 1  # the EOS that ends every text
    if not encoder.tokenizer.is_fast:
        return None

    def read(text: str) -> Spans:
        asked = {"truncation": True, "max_length": encoder.max_length - end}
        found = encoder.tokenizer(prefix + text, return_offsets_mapping=True, **asked)
        return _of_text(found["offset_mapping"], len(prefix))

    return read


def _of_text(offsets: list[tuple[int, int]], prefix: int) -> Spans:
    """Without the prefix, and without the tokens that stand for no text."""
    return [(a - prefix, b - prefix) for a, b in offsets if a >= prefix and b > a]
