"""An encoder without context: backbone, pooling and, in a first stage, a head.

    ids (B, S) ──▶ Backbone or T5 ──▶ pool ──▶ head ──▶ vectors (B, h), not normalised

It is the ordinary sentence encoder (all-MiniLM-L6-v2 loads as one), and it is the first stage that
turns the documents of a corpus into context vectors.

Source: Morris and Rush (2024), section 4.2, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from cde_core.model import pooling
from cde_core.model.backbones import Backbone
from cde_core.model.config import BackboneConfig, BiencoderConfig
from cde_core.model.t5 import T5
from cde_core.model.t5_config import T5Config


class Biencoder(nn.Module):
    """One vector per text, whatever the corpus."""

    def __init__(self, config: BiencoderConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = backbone_of(config.backbone)
        self.head = nn.Identity() if config.head == "none" else _head(config.backbone.hidden)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, h), not normalised, of token ids (B, S); mask (B, S) true for real tokens."""
        rows = self.backbone(ids, mask)
        if self.config.pooling == "decoder":
            assert isinstance(self.backbone, T5)
            return self._headed(self.backbone.pooled(rows, mask))
        return self._headed(pooling.OF_ROWS[self.config.pooling](rows, mask))

    def spans(
        self,
        ids: Tensor,
        mask: Tensor | None,
        count: int,
        *,
        of: Literal["text", "padded"] = "text",
    ) -> Tensor:
        """Vectors (B, count, h) of contiguous spans of each text: the first stage's output."""
        rows = self.backbone(ids, mask)
        return self._headed(pooling.mean_of_spans(rows, mask, count, of=of))

    def _headed(self, pooled: Tensor) -> Tensor:
        vectors: Tensor = self.head(pooled)
        return pooled + vectors if self.config.head == "residual" else vectors


def backbone_of(config: BackboneConfig | T5Config) -> Backbone | T5:
    """The transformer that a configuration describes."""
    return T5(config) if isinstance(config, T5Config) else Backbone(config)


def _head(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
