"""The tokens that stand for what was cut out of a text, as T5's tokenizers call them.

    "<extra_id_0>", "<extra_id_1>", …  ◀── sentinels_of ── tokenizer ── with_sentinels ──▶ with them

Source: Raffel et al. (2020), section 3.1.4, https://arxiv.org/abs/1910.10683
"""

from __future__ import annotations

from itertools import count

import numpy as np
from tokenizers import AddedToken, Tokenizer

from cde_core.tokens import Tokens

SENTINELS = 100
"""How many T5's tokenizers have."""


def sentinels_of(tokenizer: Tokenizer) -> Tokens:
    """Their ids in order, as many as there are."""
    ids: list[int] = []
    for number in count():
        found = tokenizer.token_to_id(_name(number))
        if found is None:
            return np.asarray(ids, dtype=np.int32)
        ids.append(found)
    raise AssertionError("count() never ends")


def with_sentinels(tokenizer: Tokenizer, number: int = SENTINELS) -> Tokenizer:
    """A copy of a tokenizer that has at least so many, behind all of its other tokens."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.add_special_tokens([AddedToken(_name(i), normalized=False) for i in range(number)])
    return copy


def _name(number: int) -> str:
    return f"<extra_id_{number}>"
