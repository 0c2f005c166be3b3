"""How well a language model fills in spans early and late in its input.

    texts as long as the model's window ──▶ ten zones ──▶ one span at a time ──▶ right or wrong

If filling in is as good everywhere, a bias towards the beginning is not from language modelling but
from whatever came after it. Spans of three tokens are taken out one at a time, so that all of
them see as much of the text.

Source: Coelho et al. (2024), section 4.4 and figure 4, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cde_core.errors import DataError
from cde_eval.probes.position.filling import Span, SpanModel, Tokens
from cde_eval.probes.position.passages import Passages
from cde_eval.probes.table import ProbeTable
from cde_eval.progress import progress_bar

PROBE = "position-spans"

ZONES = 10
LENGTH = 3
"""Tokens of a span."""

SPANS_PER_ZONE = 200
"""The paper has 7,000."""


def probe_spans(
    model: str,
    filler: SpanModel,
    data: Passages,
    output: Path,
    *,
    per_zone: int = SPANS_PER_ZONE,
    window: int | None = None,
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Take spans out of every zone and count what is filled in rightly; a killed run continues.

    Args:
        model: As it was asked for.
        filler: The model.
        data: Whose documents are used; its passages are not.
        output: Results folder.
        per_zone: Spans in each zone.
        window: Tokens of a text; None for as many as the model takes. Shorter documents are left
            out, and longer ones cut.
        seed: Of the draw of documents and places.
        about: What else decides the rows.

    Returns:
        A row per zone: spans, those that are wholly right, tokens, and those that are right.

    Raises:
        DataError: If the window is too small for the zones, or no document fills it.
    """
    window = window or filler.window
    if window < ZONES * LENGTH:
        raise DataError(
            f"{window} tokens have no room for {ZONES} zones of {LENGTH}-token spans; "
            f"allow at least {ZONES * LENGTH}."
        )
    facts = {
        "model": model,
        "model_name": filler.name,
        "revision": filler.revision,
        "data": data.name,
        "data_revision": data.revision,
        "per_zone": per_zone,
        "window": window,
        "seed": seed,
        **(about or {}),
    }
    table = ProbeTable(output, PROBE, facts, cell=["zone"])
    todo = [zone for zone in range(1, ZONES + 1) if not table.has(zone=zone)]
    texts = _texts(filler, data, window) if todo else []
    with progress_bar(len(todo), "zones") as tell:
        for zone in todo:
            spans = spans_of_zone(texts, zone, per_zone, np.random.default_rng([seed, zone]))
            table.add([_counted(spans, filler.fill(spans))], zone=zone)
            tell(1)
    return table.frame


def spans_of_zone(
    texts: Sequence[Tokens], zone: int, count: int, rng: np.random.Generator
) -> list[Span]:
    """Spans that lie in one of the ten zones of texts, by chance.

    Args:
        texts: Token ids of each text, all of one length.
        zone: From 1.
        count: How many.
        rng: Where chance comes from.
    """
    length = len(texts[0])
    first, end = (length * number // ZONES for number in (zone - 1, zone))
    rows = rng.integers(len(texts), size=count)
    starts = rng.integers(first, end - LENGTH + 1, size=count)
    return [Span(texts[row], int(start), LENGTH) for row, start in zip(rows, starts, strict=True)]


def _texts(filler: SpanModel, data: Passages, window: int) -> list[Tokens]:
    tokens = (filler.tokens(text) for text in data.documents)
    texts = [one[:window] for one in tokens if len(one) >= window]
    if not texts:
        raise DataError(
            f"No document of {data.name} has the {window} tokens that {filler.name} reads; give "
            "longer documents, or a smaller --window."
        )
    return texts


def _counted(spans: Sequence[Span], filled: Sequence[Tokens]) -> dict[str, Any]:
    right = np.array([one.truth == found for one, found in zip(spans, filled, strict=True)])
    return {
        "spans": len(right),
        "right_spans": int(right.all(axis=1).sum()),
        "tokens": right.size,
        "right_tokens": int(right.sum()),
    }
