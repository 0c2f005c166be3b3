"""A T5 that was pre-trained here, as a model that fills in spans.

    runs/NAME/model ──▶ load_own_t5 ──▶ OwnT5: the cat <extra_id_0> mat ──▶ sat on the

Its folder is in our format, which transformers does not know, and its positions may be rotary. What
it reads is framed as in its training (`cde_core.train.pretraining`).

Source: Coelho et al. (2024), section 4.4, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import cde_core
from cde_core.errors import ModelError
from cde_core.model.encode import TextEncoder
from cde_core.model.sentinels import sentinels_of
from cde_core.model.t5 import T5
from cde_core.train.pretraining.language_batches import Example
from cde_core.train.pretraining.language_loss import word_scores
from cde_core.train.pretraining.token_windows import frame_of
from cde_eval.encoders.biencoder import folder_revision
from cde_eval.encoders.local_name import local_name
from cde_eval.probes.position.filling import BATCH, Span, Tokens


class OwnT5:
    """A T5 of cde_core with its decoder."""

    def __init__(self, encoder: TextEncoder, model: T5, name: str, revision: str) -> None:
        self.name, self.revision = name, revision
        self._encoder, self._model = encoder, model
        self._tokenizer = encoder.reader.tokenizer
        self._frame = frame_of(self._tokenizer)
        self._mark = int(sentinels_of(self._tokenizer)[0])
        around = len(self._frame.before) + len(self._frame.after)
        self.window = encoder.reader.max_length - around
        self._tokenizer.no_truncation()

    def tokens(self, text: str) -> Tokens:
        """Token ids of a text, nothing added and nothing cut."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return np.asarray(ids, dtype=np.int64)

    @torch.inference_mode()
    def fill(self, spans: Sequence[Span]) -> list[Tokens]:
        """The likeliest token at each place of the span, given the right ones before it."""
        found: list[Tokens] = []
        for first in range(0, len(spans), BATCH):
            batch = spans[first : first + BATCH]
            examples = [self._example(span) for span in batch]
            scores, _ = word_scores(self._model, examples, self._encoder.device)
            for row, span in enumerate(batch):
                best = scores[row, 1 : 1 + span.length].argmax(-1)
                found.append(best.cpu().numpy())
        return found

    def _example(self, span: Span) -> Example:
        before, after = span.tokens[: span.start], span.tokens[span.start + span.length :]
        read = [*self._frame.before, *before, self._mark, *after, *self._frame.after]
        said = [self._mark, *span.truth]
        return Example(np.asarray(read, dtype=np.int32), np.asarray(said, dtype=np.int32))


def is_ours(asked: str) -> bool:
    """Whether a name is a folder in our own format."""
    try:
        about = json.loads((Path(asked) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and str(about.get("format", "")).startswith("cde_core")


def load_own_t5(asked: str, device: str) -> OwnT5:
    """A T5 by the folder that pre-training wrote.

    Raises:
        ModelError: If it is none, or lost its decoder when it became a text encoder.
    """
    encoder = cde_core.load(asked, device=device, cache=None)
    backbone = encoder.model.backbone
    if not isinstance(backbone, T5) or not backbone.config.decoder_layers:
        raise ModelError(
            f"The model {asked!r} fills in nothing: it is no T5 with its decoder; give the folder "
            "that `task: span-corruption` wrote."
        )
    if not len(sentinels_of(encoder.reader.tokenizer)):
        raise ModelError(
            f"The model {asked!r} has no token for what is missing (<extra_id_0>), so it was not "
            "trained to fill in spans; give a span-corruption model."
        )
    folder = Path(asked)
    return OwnT5(encoder, backbone, local_name(folder), folder_revision(folder))
