"""T5: an encoder that reads a text and a decoder that looks at what was read.

    ids (B, S) ──▶ encoder ──▶ rows (B, S, h) ──▶ decode(ids (B, T)) ──▶ rows (B, T, h) ──▶ words
                                            └──▶ pooled ──▶ (B, h): the decoder's first row

As a text encoder it gives one row per token, as every backbone does, and its decoder can pool them:
one step from the start token looks at all of the text, and its row is the text's vector. Trained as
a language model, the decoder predicts the words that were cut out of the text.

Source: Raffel et al. (2020), https://arxiv.org/abs/1910.10683; Ni et al. (2022), Sentence-T5,
https://arxiv.org/abs/2108.08877; Coelho et al. (2024), section 3.1,
https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cde_core.model import flash
from cde_core.model.flash import Packed, real_rows
from cde_core.model.t5_config import T5Config
from cde_core.model.t5_layers import DecoderLayer, EncoderLayer, Seen, norm
from cde_core.model.t5_positions import RelativeBias, rotation


class T5(nn.Module):
    """Token ids in, one row per token out; a decoder beside, unless it is left out."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        if config.position == "relative":
            self.relative_bias = RelativeBias(config, both_sides=True)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.final_norm = norm(config)
        if config.decoder_layers:
            self.decoder = Decoder(config)
        if config.own_output:
            self.output = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Rows (B, S, h) of token ids (B, S); mask (B, S) true for real tokens, None: all are."""
        x = self.words(ids)
        turned, seen = rotation(self.config, ids.shape[1], ids.device), self._seen(x, mask)
        for layer in self.layers:
            x = layer(x, seen=seen, rotation=turned)
        rows: Tensor = self.final_norm(x)
        return rows

    def decode(self, ids: Tensor, text: Tensor, mask: Tensor | None = None) -> Tensor:
        """Rows (B, T, h) of the decoder.

        Args:
            ids: What it has read so far (B, T), the start token first; each row sees those before.
            text: The encoder's rows (B, S, h).
            mask: True for real tokens of the text (B, S); None: all are.
        """
        rows: Tensor = self.decoder(self.words(ids), text, mask)
        return rows

    def pooled(self, text: Tensor, mask: Tensor | None = None) -> Tensor:
        """The decoder's first row (B, h), of the start token, over a text's rows (B, S, h)."""
        start = torch.full((len(text), 1), self.config.start, device=text.device)
        return self.decode(start, text, mask)[:, 0]

    def word_scores(self, rows: Tensor) -> Tensor:
        """Logits (…, vocabulary) of the word that each of the decoder's rows (…, h) stands for."""
        if self.config.scaled_output:
            rows = rows * self.config.hidden**-0.5
        matrix = self.output.weight if self.config.own_output else self.words.weight
        return F.linear(rows, matrix)

    def _seen(self, x: Tensor, mask: Tensor | None) -> Seen:
        """What the rows of a text see of one another: all that is no padding, nearer or farther."""
        rotary = self.config.position == "rotary"
        if rotary and flash.fits(x, head_width=self.config.head_width, in_front=False):
            real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask.bool()
            rows = real_rows(real)
            return Packed(rows, rows, 0)
        visible = _visible(mask)
        if rotary:
            return visible
        bias: Tensor = self.relative_bias(x.shape[1])
        return bias if visible is None else bias.masked_fill(~visible, float("-inf"))


class Decoder(nn.Module):
    """The decoder's layers; word embeddings are the encoder's."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        if config.position == "relative":
            self.relative_bias = RelativeBias(config, both_sides=False)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.final_norm = norm(config)

    def forward(self, x: Tensor, text: Tensor, mask: Tensor | None) -> Tensor:
        """Rows (B, T, h) of embedded words x (B, T, h), over a text's rows (B, S, h)."""
        length = x.shape[1]
        turned, seen = rotation(self.config, length, x.device), self._seen(length, x.device)
        for layer in self.layers:
            x = layer(x, text, seen=seen, seen_of_text=_visible(mask), rotation=turned)
        rows: Tensor = self.final_norm(x)
        return rows

    def _seen(self, length: int, device: torch.device) -> Seen:
        before = torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
        if self.config.position == "rotary":
            return before
        bias: Tensor = self.relative_bias(length)
        return bias.masked_fill(~before, float("-inf"))


def start_afresh(model: T5) -> None:
    """Give a T5 the random weights that its authors begin with.

    Queries start small by the root of a head's width, which is why scores need no division.

    Source: the published code of T5, mesh_tensorflow's initialisers.
    """
    config = model.config
    nn.init.normal_(model.words.weight)
    for name, parameter in model.named_parameters():
        module = name.split(".")[-2]
        if module == "query":
            nn.init.normal_(parameter, std=(config.hidden * config.head_width) ** -0.5)
        elif module in ("key_value", "up", "out", "down"):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    if config.own_output:
        nn.init.normal_(model.output.weight)


def _visible(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.bool()[:, None, None, :]
