"""Cut spans out of a text and ask for them: T5's own task.

    tokens  a b c d e f g h ──▶ corrupt ──▶ input   a b <0> e f g <1>
                                            target  <0> c d <1> h

Each span gives way to a sentinel, and the target says after each sentinel what stood there, so
every token is in the input or in the target and never in both. A text begins with what is kept and
ends with what is cut, as in T5's published code.

Source: Raffel et al. (2020), sections 3.1.4 and 3.3.4, https://arxiv.org/abs/1910.10683
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cde_core.errors import ConfigError
from cde_core.tokens import Tokens


class Corrupted(NamedTuple):
    """What a model reads, and what it is to say."""

    input: Tokens
    """What was kept, with a sentinel for every span that was cut."""

    target: Tokens
    """Every sentinel with the span that it stands for."""


def corrupt(
    tokens: Tokens,
    sentinels: Tokens,
    rng: np.random.Generator,
    *,
    share: float = 0.15,
    mean_length: float = 3.0,
) -> Corrupted:
    """Cut spans out of a text.

    Args:
        tokens: The text's own tokens, at least two, without those that a tokenizer puts around.
        sentinels: What stands for the first span, the second, and so on. Where there are too few,
            spans are fewer and longer: 2,048 tokens would have 102, and T5 knows 100.
        rng: Draws where the spans are.
        share: Of the tokens, that is cut.
        mean_length: Tokens of a span, on average.

    Raises:
        ConfigError: If the text is too short, or there is no sentinel.
    """
    lengths = span_lengths(
        len(tokens), rng, share=share, mean_length=mean_length, most=len(sentinels)
    )
    kept, cut, place = [], [], 0
    for sentinel, (whole, gone) in zip(sentinels, lengths, strict=False):
        mark = np.asarray([sentinel], dtype=np.int32)
        kept += [tokens[place : place + whole], mark]
        cut += [mark, tokens[place + whole : place + whole + gone]]
        place += whole + gone
    return Corrupted(np.concatenate(kept), np.concatenate(cut))


def span_lengths(
    length: int,
    rng: np.random.Generator,
    *,
    share: float,
    mean_length: float,
    most: int,
) -> NDArray[np.int64]:
    """Lengths (spans, 2) of what is kept before each span, and of the span, in their order.

    Every way to cut the text into so many pieces of at least one token is as likely as any other.

    Raises:
        ConfigError: If the text has fewer than two tokens, or no span is allowed.
    """
    if length < 2 or most < 1:
        raise ConfigError(
            f"A span cannot be cut out of {length} tokens with {most} sentinels; it takes a text "
            "of two or more, and a tokenizer with <extra_id_0>."
        )
    gone = min(max(round(length * share), 1), length - 1)
    spans = min(max(round(gone / mean_length), 1), gone, length - gone, most)
    return np.stack([_pieces(length - gone, spans, rng), _pieces(gone, spans, rng)], axis=1)


def _pieces(length: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Lengths (count,), each at least 1, that add up to `length`."""
    ends = np.sort(rng.choice(length - 1, count - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], ends, [length]])).astype(np.int64)
