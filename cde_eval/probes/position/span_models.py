"""Language models that fill in what is missing: what they are asked, what they answer.

    masked       the cat [M] [M] [M] mat       ──▶ the likeliest token at each [M]
    corrupted    the cat <extra_id_0> mat      ──▶ <extra_id_0> sat on the <extra_id_1>

BERT and its kin have a mask per token and know how many are missing; T5 and its kin have one mark
for the whole span, and write it. What T5 would write greedily is the right span exactly when each
of its tokens is the likeliest after the right ones before it, so one pass is enough.

Sources: Devlin et al. (2019), https://arxiv.org/abs/1810.04805; Raffel et al. (2020), section
3.1.4, https://arxiv.org/abs/1910.10683
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cde_core.errors import ModelError
from cde_eval.encoders.biencoder import folder_revision
from cde_eval.encoders.local_name import local_name
from cde_eval.probes.position.filling import BATCH, Span, SpanModel, Tokens
from cde_eval.probes.position.own_t5 import is_ours, load_own_t5

LONGEST_UNLESS_SAID = 512
"""Tokens of a text, for models that know no limit."""


class _Loaded:
    """What both kinds have in common."""

    def __init__(self, model: Any, tokenizer: Any, name: str, revision: str) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.name, self.revision = name, revision
        self.window = _longest(model.config, tokenizer) - self.around

    around = 2
    """Tokens that stand around a text."""

    def tokens(self, text: str) -> Tokens:
        """Token ids of a text, nothing added and nothing cut."""
        found = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return np.asarray(found, dtype=np.int64)

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        return ids.to(self.model.device), mask.to(self.model.device)


class MaskedModel(_Loaded):
    """A masked language model: BERT, RoBERTa, ModernBERT."""

    @torch.inference_mode()
    def fill(self, spans: Sequence[Span]) -> list[Tokens]:
        """The likeliest token at each mask."""
        found = []
        for first in range(0, len(spans), BATCH):
            batch = spans[first : first + BATCH]
            asked = [self._asked(span) for span in batch]
            ids, mask = self._padded([row for row, _ in asked])
            logits = self.model(input_ids=ids, attention_mask=mask).logits
            for row, (span, (_, start)) in enumerate(zip(batch, asked, strict=True)):
                best = logits[row, start : start + span.length].argmax(-1)
                found.append(best.cpu().numpy())
        return found

    def _asked(self, span: Span) -> tuple[list[int], int]:
        """The text with masks and with what the model puts around it; where the masks begin."""
        tokens = span.tokens.tolist()
        tokens[span.start : span.start + span.length] = [self.tokenizer.mask_token_id] * span.length
        before = [_first_id(self.tokenizer, "cls_token_id", "bos_token_id")]
        after = [_first_id(self.tokenizer, "sep_token_id", "eos_token_id")]
        front = [token for token in before if token is not None]
        return [*front, *tokens, *(t for t in after if t is not None)], len(front) + span.start


class SpanCorruptionModel(_Loaded):
    """An encoder-decoder that was trained to write corrupted spans: T5."""

    around = 1

    @torch.inference_mode()
    def fill(self, spans: Sequence[Span]) -> list[Tokens]:
        """The likeliest token at each place of the span, given the right ones before it."""
        mark = self._mark()
        start = self.model.config.decoder_start_token_id
        found = []
        for first in range(0, len(spans), BATCH):
            batch = spans[first : first + BATCH]
            ids, mask = self._padded([self._asked(span, mark) for span in batch])
            written, _ = self._padded([[start, mark, *span.truth[:-1]] for span in batch])
            logits = self.model(
                input_ids=ids, attention_mask=mask, decoder_input_ids=written
            ).logits
            for row, span in enumerate(batch):
                best = logits[row, 1 : 1 + span.length].argmax(-1)
                found.append(best.cpu().numpy())
        return found

    def _asked(self, span: Span, mark: int) -> list[int]:
        before, after = span.tokens[: span.start], span.tokens[span.start + span.length :]
        end = self.tokenizer.eos_token_id
        return [*before.tolist(), mark, *after.tolist(), *([] if end is None else [end])]

    def _mark(self) -> int:
        return int(self.tokenizer.convert_tokens_to_ids("<extra_id_0>"))


def load_span_model(asked: str, device: str = "cpu") -> SpanModel:
    """A masked or span-corruption language model, by folder or hub name, or a T5 of our own.

    Raises:
        ModelError: If transformers does not load it, or it fills in nothing.
    """
    from transformers import (
        AutoConfig,
        AutoModelForMaskedLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
    )

    if is_ours(asked):
        return load_own_t5(asked, device)
    try:
        writes = AutoConfig.from_pretrained(asked).is_encoder_decoder
        kind = AutoModelForSeq2SeqLM if writes else AutoModelForMaskedLM
        tokenizer = AutoTokenizer.from_pretrained(asked)
        model, loaded = kind.from_pretrained(asked, output_loading_info=True)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ModelError(
            f"No language model {asked!r} that fills in spans: {reason} Give a folder or hub name "
            "of a masked model (BERT) or of one that writes spans (T5)."
        ) from error
    marked = "<extra_id_0>" in tokenizer.get_vocab() if writes else tokenizer.mask_token
    if not marked:
        raise ModelError(
            f"The model {asked!r} has no token for what is missing ([MASK] or <extra_id_0>), so it "
            "was not trained to fill in spans; give a masked or span-corruption model."
        )
    if missing := sorted(loaded["missing_keys"]):
        raise ModelError(
            f"The model {asked!r} has no weights for {', '.join(missing[:3])}, so it fills in "
            "nothing: sentence encoders have lost that part; give the language model itself."
        )
    folder = Path(asked)
    revision = folder_revision(folder) if folder.is_dir() else _commit_of(model)
    name = local_name(folder) if folder.is_dir() else asked
    made = SpanCorruptionModel if writes else MaskedModel
    return made(model.to(device), tokenizer, name, revision)


def _longest(config: Any, tokenizer: Any) -> int:
    """Tokens that fit; T5 has no limit of its own, and its published tokenizer says 512."""
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    known = [int(limit) for limit in (*limits, tokenizer.model_max_length) if limit]
    return min(min(known), LONGEST_UNLESS_SAID if min(known) > 10**6 else min(known))


def _first_id(tokenizer: Any, *names: str) -> int | None:
    ids = (getattr(tokenizer, name, None) for name in names)
    return next((int(one) for one in ids if one is not None), None)


def _commit_of(model: Any) -> str:
    return getattr(model.config, "_commit_hash", None) or "main"
