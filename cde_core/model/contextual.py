"""The two-stage encoder: read a corpus, then embed each text in its light.

    documents ──▶ read_context ──▶ vectors (J·T, h) ──▶ prepare ──▶ Prepared
                                                                       │ once per corpus
    text ids (B, S) ──────────────────────────────────────▶ forward ──▶ (B, h)

The second stage sees `[ J·T context vectors | soft prompts | S text tokens ]`.
*Joint* attention (as published) sends all of it through every layer for every text. With *prefix*
attention, context and soft prompts see only one another, so what they show to a text does not
depend on the text: keys and values are computed once per corpus, and a text costs little more than
without context.

Positions: context rows stand at position 0 (rotary angle 0, so their order means nothing) or, with
`rotary_on_context`, directly in front of position J·T. Soft prompts and text always start at J·T as
configured, however few documents there are. With absolute positions, text starts at 0 and context
and soft prompts have none.

Source: Morris and Rush (2024), section 4.2, https://arxiv.org/abs/2410.02525, as the published
models do it. Prefix attention and its bias are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cde_core.errors import ContextError
from cde_core.model import pooling
from cde_core.model.attention import KeyValues
from cde_core.model.backbones import Backbone
from cde_core.model.biencoder import Biencoder
from cde_core.model.config import BiencoderConfig, ContextualConfig


@dataclass(frozen=True, slots=True)
class Prepared:
    """A context in the form that the second stage takes it in."""

    rows: Tensor
    """Context and soft prompts (1 or B, P, h), normalised, on their way into the first layer."""

    key_values: Sequence[KeyValues] | None
    """What those rows show in each layer (prefix attention); None with joint attention."""


class ContextualEncoder(nn.Module):
    """Embeds a text differently in every corpus."""

    def __init__(self, config: ContextualConfig) -> None:
        super().__init__()
        self.config = config
        width = config.second.hidden
        self.first_stage = Biencoder(
            BiencoderConfig(
                backbone=config.first,
                head="residual" if config.residual_first_head else "mlp",
                max_length=config.max_length,
            )
        )
        self.backbone = Backbone(config.second)
        self.prompt_projection = _projection(width, config.soft_prompts * width)
        self.output_projection = _projection(width, width)
        if config.null_context:
            self.null_embedding = nn.Parameter(torch.randn(width) * 0.02)
        if config.context_bias_init is not None:
            shape = (config.second.layers, config.second.heads)
            self.context_bias = nn.Parameter(torch.full(shape, config.context_bias_init))

    def read_context(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Context vectors (n·T, h) of documents given as token ids (n, S); not normalised."""
        spans = self.first_stage.spans(
            ids, mask, self.config.tokens_per_document, of=self.config.spans_of
        )
        return spans.flatten(0, 1)

    def null_vectors(self) -> Tensor:
        """Context vectors (J·T, h) that stand for "no context".

        Raises:
            ContextError: If the model was made without them, as the released models were.
        """
        if not self.config.null_context:
            raise ContextError(
                "This model has no null context, so it cannot embed without one; give it "
                "documents, or random strings (the `random` policy, the usual stand-in)."
            )
        return self.null_embedding.expand(self.config.context_rows, -1)

    def replace_by_null(self, vectors: Tensor, dropped: Tensor) -> Tensor:
        """Vectors (n, h), but the null vector where `dropped` (n,) is true (sequence dropout)."""
        return torch.where(dropped[..., None], self.null_vectors()[0].to(vectors.dtype), vectors)

    def prepare(self, vectors: Tensor | None, *, allow_more: bool = False) -> Prepared:
        """Turn context vectors into what `forward` takes; do it once per corpus.

        Args:
            vectors: (n, h), or (B, n, h) for a context of its own per text; None: no context.
            allow_more: Accept more vectors than the model was made for.

        Raises:
            ContextError: If there are too many vectors, their width is wrong, or there are none
                and the model has no null context.
        """
        vectors = self.null_vectors() if vectors is None else vectors
        self._check(vectors, allow_more=allow_more)
        vectors = vectors.to(self.backbone.words.weight)
        vectors = vectors if vectors.dim() == 3 else vectors[None]
        prompts = self.soft_prompts().expand(vectors.shape[0], -1, -1)
        rows = self.backbone.embedding_norm(torch.cat((vectors, prompts), dim=1))
        if self.config.context_attention == "joint":
            return Prepared(rows, None)
        positions, _ = self._places(rows.shape[1], 0)
        return Prepared(rows, self.backbone.remember(rows, positions=positions))

    def soft_prompts(self) -> Tensor:
        """Learned rows (soft_prompts, h): a network's answer to a vector of ones, as published."""
        ones = self.backbone.words.weight.new_ones(self.config.second.hidden)
        flat: Tensor = self.prompt_projection(ones)
        return flat.view(self.config.soft_prompts, -1)

    def forward(self, ids: Tensor, mask: Tensor | None, context: Prepared) -> Tensor:
        """Vectors (B, h), not normalised, of token ids (B, S); mask (B, S) true for real tokens."""
        return self.head(self.hidden(ids, mask, context), ids, mask)

    def hidden(self, ids: Tensor, mask: Tensor | None, context: Prepared) -> Tensor:
        """Rows (B, S, h) of the text after the last layer; with `pool_context`, (B, P + S, h)."""
        text = self.text_rows(ids)
        in_front, length = context.rows.shape[1], ids.shape[1]
        positions, order = self._places(in_front, length)
        if context.key_values is not None:
            return self.backbone.run(
                text,
                positions=positions[in_front:],
                mask=mask,
                before=context.key_values,
                before_bias=getattr(self, "context_bias", None),
            )
        # All texts could share what the first layer computes of the context alone. Tried: with 512
        # documents and 6 layers it saved 0 to 5 % of the time, too little for a path of its own.
        front = context.rows.expand(len(ids), -1, -1)
        return self.backbone.run(
            torch.cat((front, text), dim=1),
            positions=positions,
            mask=_seen_with(mask, in_front),
            order=order,
            keep=None if self.config.pool_context else length,
        )

    def text_rows(self, ids: Tensor) -> Tensor:
        """Rows (B, S, h) of the text on their way into the first layer."""
        rows: Tensor = self.backbone.embedding_norm(self.backbone.embed(ids))
        if self.config.second.norm == "pre":
            # ModernBERT normalises whatever comes in, and the published code hands it rows that it
            # has normalised already: text is normalised twice, context once.
            rows = self.backbone.embedding_norm(rows)
        return rows

    def head(self, rows: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Vectors (B, h) from the rows that `hidden` gave."""
        counted = mask
        if not self.config.pool_instruction and self.config.colon_id is not None:
            counted = pooling.after_instruction(ids, mask, self.config.colon_id)
        pooled = pooling.mean(rows, _seen_with(counted, rows.shape[1] - ids.shape[1]))
        vectors: Tensor = self.output_projection(pooled)
        return pooled + vectors if self.config.residual_head else vectors

    def _places(self, in_front: int, length: int) -> tuple[Tensor, Tensor]:
        """Rotary positions, and places in the sequence, of P + S rows; P stand in front of text."""
        start = self.config.context_rows
        documents = in_front - self.config.soft_prompts
        order = torch.arange(
            start - documents,
            start + self.config.soft_prompts + length,
            device=self.backbone.words.weight.device,
        )
        if self.config.rotary_on_context:
            return order, order
        return torch.where(order < start, 0, order), order

    def _check(self, vectors: Tensor, *, allow_more: bool) -> None:
        if vectors.shape[-1] != self.config.second.hidden or not 1 < vectors.dim() < 4:
            raise ContextError(
                f"The context has shape {tuple(vectors.shape)}; this model takes vectors of width "
                f"{self.config.second.hidden}."
            )
        if vectors.shape[-2] > self.config.context_rows and not allow_more:
            raise ContextError(
                f"The context has {vectors.shape[-2]} vectors, but the model was made for "
                f"{self.config.context_rows}; read fewer documents, or allow more on purpose."
            )


def _projection(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


def _seen_with(mask: Tensor | None, in_front: int) -> Tensor | None:
    """The mask (B, S) with `in_front` rows before it that always count: (B, P + S)."""
    if mask is None or not in_front:
        return mask
    return torch.nn.functional.pad(mask.bool(), (in_front, 0), value=True)
