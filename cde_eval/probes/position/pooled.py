"""The same biencoder with another pooling.

    tokens' rows ──▶ mean · first token · last token · … ──▶ vector

A model is trained with one pooling, so another gives worse vectors; whether it sees the beginning
better than the end can still be asked of each. A contextual second stage has one pooling only.

Source: Coelho et al. (2024), figure 3, which compares a decoder's pooling with the mean.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from cde_core.errors import ModelError
from cde_core.model.biencoder import Biencoder as CoreBiencoder
from cde_core.model.config import POOLINGS
from cde_core.model.encode import TextEncoder
from cde_eval.encoders.biencoder import Biencoder
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.kept import kept, unkept
from cde_eval.encoders.protocol import Encoder


def with_pooling(encoder: Encoder, pooling: str) -> Encoder:
    """A copy of an encoder that pools otherwise; its weights are shared.

    Args:
        encoder: A biencoder of sentence-transformers or of cde_core.
        pooling: What sentence-transformers calls it (mean, cls, max, lasttoken, weightedmean); of a
            T5 with its decoder also decoder.

    Raises:
        ModelError: If the encoder's pooling cannot be changed, or not to this one.
    """
    inner = unkept(encoder)
    if isinstance(inner, Cde) and isinstance(inner.model.model, CoreBiencoder):
        changed: Encoder = _core(inner, inner.model.model, pooling)
    elif isinstance(inner, Biencoder) and _pooling_places(inner):
        changed = _sentence_transformers(inner, pooling)
    else:
        raise ModelError(f"{encoder.name} has one pooling only; leave --pooling out for it.")
    changed.settings = {**inner.settings, "pooling": pooling}
    return kept(changed)


def _core(encoder: Cde, model: CoreBiencoder, pooling: str) -> Cde:
    decodes = getattr(model.config.backbone, "decoder_layers", 0)
    known = tuple(name for name in POOLINGS if decodes or name != "decoder")
    _check(pooling, known, encoder)
    other = copy.copy(model)
    other.config = dataclasses.replace(model.config, pooling=pooling)  # type: ignore[arg-type]
    changed = copy.copy(encoder)
    changed.model = TextEncoder(other, encoder.model.reader, name=encoder.model.name)
    return changed


def _sentence_transformers(encoder: Biencoder, pooling: str) -> Biencoder:
    places = _pooling_places(encoder)
    _check(pooling, places[0][1].POOLING_MODES, encoder)
    model = copy.copy(encoder.model)
    model._modules = dict(encoder.model._modules)
    for name, module in places:
        model._modules[name] = type(module)(
            module.embedding_dimension, pooling, include_prompt=module.include_prompt
        )
    changed = copy.copy(encoder)
    changed.model = model
    return changed


def _pooling_places(encoder: Biencoder) -> list[tuple[str, Any]]:
    from sentence_transformers.sentence_transformer.modules import Pooling

    return [(n, m) for n, m in encoder.model.named_children() if isinstance(m, Pooling)]


def _check(pooling: str, known: tuple[str, ...], encoder: Encoder) -> None:
    if pooling not in known:
        raise ModelError(
            f"{encoder.name} cannot pool by {pooling!r}; it can by {', '.join(known)}."
        )
