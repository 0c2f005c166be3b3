"""How much of each part of a document is in its vector.

    document ──▶ its ten tenths, by tokens ──▶ embedded as queries ──▶ cosine with the document

The tenths are the substrings between tokens of the model's own, of what the model reads of the
document: a tenth that it never read would say nothing about the vector. As in the paper, where they
are called pseudo-queries, they are embedded as queries, with the prefix that queries have.

Source: Coelho et al. (2024), section 4.3 and figure 3, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cde_core.errors import DataError
from cde_eval.encoders.protocol import Encoder
from cde_eval.probes.position.passages import Passages
from cde_eval.probes.position.reading import Spans, reader_of, words
from cde_eval.probes.position.situations import Situation, document_of, query_of, read_situation
from cde_eval.probes.table import ProbeTable
from cde_eval.progress import progress_bar
from cde_eval.vectors import unit_length

PROBE = "position-tenths"

PARTS = 10
FEWEST_TOKENS = 50
"""Of a document: five in every tenth."""


def tenths(text: str, spans: Spans, parts: int = PARTS) -> list[str]:
    """Consecutive substrings of a text with the same number of tokens, give or take one.

    Args:
        text: The document.
        spans: Start and end of each token, at least `parts` of them.
        parts: How many.
    """
    borders = [len(spans) * number // parts for number in range(parts + 1)]
    return [text[spans[a][0] : spans[b - 1][1]] for a, b in pairwise(borders)]


def probe_tenths(
    model: str,
    encoder: Encoder,
    data: Passages,
    todo: Sequence[Situation],
    output: Path,
    *,
    most: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Compare documents with their tenths, in every situation; a killed run continues.

    Args:
        model: As it was asked for.
        encoder: The model.
        data: Whose documents are used; its passages are not.
        todo: Contexts to be in.
        output: Results folder.
        most: Documents, chosen by chance; None for all that are long enough.
        about: What else decides the rows.

    Returns:
        A row per situation, document and tenth: the cosine.

    Raises:
        DataError: If no document is long enough.
        ContextError: If the encoder cannot work in a situation.
        TaskError: If it has no vectors.
    """
    read = reader_of(encoder, document_of(data))
    cut = dict(_documents(data, read or words, most))
    if not cut:
        raise DataError(f"No document of {data.name} has {FEWEST_TOKENS} tokens to be cut in ten.")
    facts = {
        "model": model,
        "model_name": encoder.name,
        "revision": encoder.revision,
        "settings": str(sorted(encoder.settings.items())),
        "data": data.name,
        "data_revision": data.revision,
        "documents": len(cut),
        "tokens": "the model's" if read else "words",
        **(about or {}),
    }
    table = ProbeTable(output, PROBE, facts, cell=["context", "draw"])
    with progress_bar(len(todo), "contexts") as tell:
        for situation in todo:
            if not table.has(**situation.cell):
                context = read_situation(encoder, situation, data)
                cosines = _cosines(encoder, data, list(cut.values()), context)
                table.add(list(_rows(list(cut), cosines)), **situation.cell)
            tell(1)
    return table.frame


def _documents(data: Passages, read: Any, most: int | None) -> Iterator[tuple[int, list[str]]]:
    """Row of each document, and what is read of it before its tenths."""
    found = 0
    for row in np.random.default_rng(0).permutation(len(data.documents)):
        text = data.documents[int(row)]
        spans = read(text)
        if len(spans) >= FEWEST_TOKENS:
            yield int(row), [text[: spans[-1][1]], *tenths(text, spans)]
            found += 1
        if found == most:
            return


def _cosines(encoder: Encoder, data: Passages, cut: list[list[str]], context: Any) -> Any:
    """Shape (documents, tenths)."""
    whole = encoder.encode([one[0] for one in cut], purpose=document_of(data), context=context)
    parts = encoder.encode(
        [part for one in cut for part in one[1:]], purpose=query_of(data), context=context
    )
    of_document = unit_length(parts).reshape(len(cut), PARTS, -1)
    return np.einsum("nd,npd->np", unit_length(whole), of_document)


def _rows(documents: list[int], cosines: Any) -> Iterator[dict[str, Any]]:
    for document, of_document in zip(documents, cosines, strict=True):
        for number, cosine in enumerate(of_document, 1):
            yield {"document": document, "tenth": number, "cosine": round(float(cosine), 4)}
