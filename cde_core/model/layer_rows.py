"""The rows that a text has on its way through the layers, for those who want to look.

    with rows_of_layers(encoder.model.backbone) as rows:
        encoder.encode([text])
    rows[0] … rows[L]        what went into the first layer, what came out of each

Hooks listen only while the `with` lasts, so whoever does not look pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from cde_core.model.backbones import Backbone
from cde_core.model.t5 import T5


@contextmanager
def rows_of_layers(backbone: Backbone | T5) -> Iterator[list[Tensor]]:
    """Take down the rows of every layer, as the model computes them.

    Args:
        backbone: Whose layers; of a contextual encoder, `model.backbone` is the second stage; of a
            T5, those of its encoder.

    Yields:
        A list that after every forward pass holds the rows (B, S, h) of the last one: those on
        their way into the first layer, then those out of each layer, the last normalised as the
        model leaves it. With joint attention, the text's rows are the last ones.
    """
    last = len(backbone.layers)
    rows: list[Any] = [None] * (last + 1)

    def on_entry(layer: Any, given: tuple[Tensor, ...]) -> None:
        rows[0] = given[0]

    def on_exit(number: int) -> Any:
        def listen(layer: Any, given: Any, made: Tensor) -> None:
            rows[number] = made

        return listen

    hooks = [backbone.layers[0].register_forward_pre_hook(on_entry)]
    hooks += [
        layer.register_forward_hook(on_exit(number))
        for number, layer in enumerate([*backbone.layers[: last - 1], backbone.final_norm], 1)
    ]
    try:
        yield rows
    finally:
        for hook in hooks:
            hook.remove()
