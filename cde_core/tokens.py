"""From texts to token ids, cut the way published models were fed.

    texts ──▶ prefix + text ──▶ cut by characters ──▶ tokenise, cut by tokens ──▶ (ids, mask)

Published contextual models cut a text to 4 characters per token of their limit, after its prefix
and before tokenising. That saves time on long documents, and it changes the embedding of texts
whose tokens are long, so it is part of the model.

Source: the authors' published evaluation code; CDE paper, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cde_core.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

Tokens = NDArray[np.int32]
"""Token ids of one text."""


class TextReader:
    """A tokenizer with the limits of one model."""

    def __init__(
        self, tokenizer: Tokenizer, *, max_length: int, characters_per_token: int = 0
    ) -> None:
        """Take a copy of `tokenizer`; `characters_per_token` of 0 never cuts by characters."""
        self.tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length)
        self.max_length = max_length
        self.characters = characters_per_token * max_length or None

    def read(self, texts: Sequence[str], prefix: str = "") -> list[Tokens]:
        """Token ids of every text with its prefix; never empty."""
        cut = [(prefix + text)[: self.characters] for text in texts]
        encoded = self.tokenizer.encode_batch_fast(cut)
        return [np.asarray(one.ids or [0], dtype=np.int32) for one in encoded]

    @property
    def colon_id(self) -> int | None:
        """Token of ":", which ends an instruction; None if there is no such token."""
        found: int | None = self.tokenizer.token_to_id(":")
        return found

    def save(self, folder: Path) -> None:
        """Write tokenizer.json into `folder`."""
        text = self.tokenizer.to_str(pretty=True)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")


def pad(texts: Sequence[Tokens], *, to: int = 0) -> tuple[Tensor, Tensor | None]:
    """Token ids (B, S) and mask (B, S), true for real tokens; the mask is None where all are.

    S is the length of the longest text, or `to` if that is longer.
    """
    import torch

    longest = max(to, *(len(tokens) for tokens in texts))
    ids = torch.zeros(len(texts), longest, dtype=torch.long)
    mask = torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, tokens in enumerate(texts):
        ids[row, : len(tokens)] = torch.from_numpy(tokens)
        mask[row, : len(tokens)] = True
    return ids, None if all(len(tokens) == longest for tokens in texts) else mask


def load_tokenizer(places: Sequence[str | Path]) -> Tokenizer:
    """The first tokenizer to be found in `places`: folders, or names on the hub.

    Raises:
        ModelError: If there is none; the message says where it was looked for.
    """
    for place in places:
        file = Path(place) / "tokenizer.json"
        if file.is_file():
            tokenizer: Tokenizer = Tokenizer.from_file(str(file))
            return tokenizer
        if found := _through_transformers(str(place)):
            return found
    raise ModelError(
        f"No tokenizer in {' or '.join(map(str, places))}; put the backbone's tokenizer.json "
        "beside the model."
    )


def _through_transformers(place: str) -> Tokenizer | None:
    """A tokenizer in an older form, or on the hub; None if there is none."""
    older = ("vocab.txt", "spiece.model")
    if Path(place).is_dir() and not any((Path(place) / name).is_file() for name in older):
        return None
    from transformers import AutoTokenizer

    try:
        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(place).backend_tokenizer
    except (OSError, ValueError, AttributeError, ImportError):
        return None
    return tokenizer
