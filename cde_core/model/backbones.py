"""The encoder that BERT, NomicBERT and ModernBERT share: token ids in, one row per token out.

    ids (B, S) ──▶ embed ──▶ enter (norm) ──▶ run (layers) ──▶ rows (B, S, h)
                                ▲                ▲
         context vectors ───────┘                └── keys and values of rows in front

`run` takes explicit position ids, because a contextual encoder puts all of its context at position
0, and rows that stand in front, because a context need not be recomputed for every text.

Source: Devlin et al. (2019), https://arxiv.org/abs/1810.04805; Nussbaum et al. (2024),
https://arxiv.org/abs/2402.01613; Warner et al. (2024), https://arxiv.org/abs/2412.13663
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cde_core.model import flash
from cde_core.model.attention import KeyValues
from cde_core.model.config import BackboneConfig
from cde_core.model.flash import Packed
from cde_core.model.transformer import Layer, Rotation, norm, rotation_at


class Backbone(nn.Module):
    """A stack of layers with its embeddings; shapes as in `transformer`."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        if config.token_types:
            self.token_types = nn.Embedding(config.token_types, config.hidden)
        if config.position == "absolute":
            self.positions = nn.Embedding(config.max_positions, config.hidden)
        self.embedding_norm = norm(config)
        self.layers = nn.ModuleList(Layer(config, first=i == 0) for i in range(config.layers))
        self.final_norm = norm(config) if config.norm == "pre" else nn.Identity()

    def embed(self, ids: Tensor) -> Tensor:
        """Rows (B, S, h) of ids (B, S): word + token type 0 + absolute position, not normalised."""
        rows: Tensor = self.words(ids)
        if self.config.token_types:
            rows = rows + self.token_types.weight[0]
        if self.config.position == "absolute":
            rows = rows + self.positions.weight[: ids.shape[1]]
        return rows

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Rows (B, S, h) of token ids (B, S); mask (B, S) true for real tokens, None: all are."""
        rows = self.embedding_norm(self.embed(ids))
        return self.run(rows, positions=torch.arange(ids.shape[1], device=ids.device), mask=mask)

    def run(
        self,
        x: Tensor,
        *,
        positions: Tensor,
        mask: Tensor | None = None,
        order: Tensor | None = None,
        before: Sequence[KeyValues] | None = None,
        before_bias: Tensor | None = None,
        keep: int | None = None,
    ) -> Tensor:
        """Send normalised rows through all layers.

        Args:
            x: Rows (B, S, h), normalised.
            positions: Rotary position of every row (S,).
            mask: True for real rows (B, S); None: all are.
            order: Place of every row in the sequence (S,), which windows are measured in;
                None: as `positions`.
            before: Per layer, keys and values of P rows in front, which no window hides.
            before_bias: Added to the scores of the rows in front (layers, heads).
            keep: The last layer computes only its last `keep` rows; None: all.

        Returns:
            Rows (B, keep or S, h).
        """
        order = positions if order is None else order
        if flash.fits(x, head_width=self.config.head_width, in_front=before is not None):
            sight: Sight = _Packed(x, mask)
        else:
            sight = _Masked(mask, order)
        for i, layer in enumerate(self.layers):
            last_rows = keep if i == len(self.layers) - 1 else None
            window = 0 if self.config.sees_everything(i) else self.config.window
            x = layer(
                x,
                rotation=self._rotation(i, positions),
                mask=sight(window, last_rows),
                before=None if before is None else before[i],
                before_bias=None if before_bias is None else before_bias[i],
                keep=last_rows,
            )
        rows: Tensor = self.final_norm(x)
        return rows

    def remember(self, x: Tensor, *, positions: Tensor) -> list[KeyValues]:
        """Keys and values, per layer, of rows x (1 or B, P, h) that see only one another.

        No window applies: such rows are a set, of which every member is near.
        """
        remembered = []
        for i, layer in enumerate(self.layers):
            rotation = self._rotation(i, positions)
            remembered.append(layer.key_values(x, rotation))  # type: ignore[operator]
            if i < len(self.layers) - 1:
                x = layer(x, rotation=rotation)
        return remembered

    def _rotation(self, layer: int, positions: Tensor) -> Rotation | None:
        if self.config.position == "absolute":
            return None
        wide = self.config.sees_everything(layer)
        theta = self.config.theta if wide else self.config.theta_in_window
        return rotation_at(positions, self.config.head_width, theta)


Sight = Callable[[int, int | None], Tensor | Packed | None]
"""From a window and a number of last rows to what these rows may see."""


class _Masked:
    """Sight as boolean masks (1 or B, 1, 1 or Q, S), or None for all."""

    def __init__(self, mask: Tensor | None, order: Tensor) -> None:
        self.real = None if mask is None else mask.bool()[:, None, None, :]
        self.order = order
        self.near: dict[int, Tensor] = {}

    def __call__(self, window: int, last: int | None) -> Tensor | None:
        if not window:
            return self.real
        if window not in self.near:
            near = ((self.order[:, None] - self.order[None, :]).abs() <= window)[None, None]
            self.near[window] = near if self.real is None else near & self.real
        visible = self.near[window]
        return visible if last is None else visible[:, :, -last:]


class _Packed:
    """Sight without padding, for the flash kernel; rows stand in order, one place apart."""

    def __init__(self, x: Tensor, mask: Tensor | None) -> None:
        self.mask = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask.bool()
        self.rows = flash.real_rows(self.mask)

    def __call__(self, window: int, last: int | None) -> Packed:
        asking = self.rows if last is None else flash.real_rows(self.mask[:, -last:])
        return Packed(asking, self.rows, window)
