"""Where does a document go when the context changes, and does it stay itself?

    documents × contexts ──▶ vectors (contexts, documents, dim) ──▶ first two components of some
                                                                └─▶ spread, distance, closer of all

The figure of the paper shows that a document moves with its context and still stays nearer to
itself than to others. The numbers say it of more documents than can be drawn: the cosine distance
of a document to itself in another context, that to other documents in the same one, and how often
a document of one context is, in another, nearest to itself.

Source: Morris and Rush (2024), section 10.5 and figure 15, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cde_core.errors import ConfigError, ContextError
from cde_eval.encoders.protocol import Encoder
from cde_eval.plan import Evaluation, Failure
from cde_eval.probes import measures
from cde_eval.probes.lent import Lent, about, lent, look_at_each
from cde_eval.probes.measures import Estimate
from cde_eval.probes.table import ProbeTable
from cde_eval.probes.word_rows import sample_rows
from cde_eval.progress import progress_bar
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.search_data import SearchData, search_data
from cde_eval.vectors import Vectors, unit_length

PROBE = "context-space"

ALL = "all"
"""Stands for all contexts together, of whatever policy."""

TEXT_SHOWN = 60
"""Characters of a document that the table keeps, so that a picture can name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How many documents are looked at."""

    documents: int = 200
    """Of which the numbers speak."""

    drawn: int = 8
    """Of these, how many are in the picture."""

    text_seed: int = 42
    """Of the documents."""

    def __post_init__(self) -> None:
        if not 2 <= self.drawn <= self.documents:
            raise ConfigError(
                f"{self.drawn} of {self.documents} documents cannot be drawn; draw 2 or more, and "
                "no more than --documents."
            )


def context_space(
    plan: Evaluation, output: Path, shown: Shown = Shown()
) -> Iterator[pd.DataFrame | Failure]:
    """Embed the same documents in different contexts, and say how far they move.

    Args:
        plan: Contextual models, search tasks, policies and draws: two contexts at least.
        output: Results folder; the tables are in `probes/context-space` below it.
        shown: How many documents.

    Returns:
        The rows of each model and task, and what could not be looked at and why, as it goes on.

    Raises:
        ModelError: If a model cannot be loaded.
    """
    return look_at_each(plan, partial(_of_one, plan, output, shown))


def _of_one(
    plan: Evaluation, output: Path, shown: Shown, model: str, encoder: Encoder, source: TaskSource
) -> Iterator[pd.DataFrame]:
    if encoder.context_size == 0:
        raise ContextError(
            f"{model} reads no context, so a document has one vector and nothing moves; choose a "
            "contextual model, or centred:NAME."
        )
    contexts = list(lent(plan, encoder, source))
    if len(contexts) < 2:
        raise ConfigError("One context moves nothing; give --draws 2 or more, or two contexts.")
    # A picture is of all its contexts, so another choice of them is another table.
    chosen = " ".join(f"{one.context}/{one.draw}/{one.pool}" for one in contexts)
    decides = {**about(plan, model, encoder, source, shown), "contexts": chosen}
    table = ProbeTable(output, PROBE, decides, cell=("part",))
    if not (table.has(part="numbers") and table.has(part="points")):
        data = search_data(source)
        rng = np.random.default_rng(shown.text_seed)
        rows = sample_rows(len(data.documents), shown.documents, rng)
        texts = [data.documents[int(row)] for row in rows]
        vectors = _vectors(encoder, data, contexts, texts)
        drawn = np.sort(rng.permutation(len(texts))[: shown.drawn])
        if not table.has(part="numbers"):
            table.add(_numbers(vectors, contexts, rng), part="numbers")
        points = _points(vectors[:, drawn], contexts, [texts[int(row)] for row in drawn])
        table.add(points, part="points")
    yield table.frame.assign(model=model, task=source.name)


def _vectors(
    encoder: Encoder, data: SearchData, contexts: Sequence[Lent], texts: Sequence[str]
) -> Vectors:
    """Unit vectors (contexts, documents, dim); kept on disk, so a killed run loses one context."""
    found = []
    with progress_bar(len(contexts), "contexts") as done:
        for one in contexts:
            purpose = data.purpose("document")
            vectors = encoder.encode(texts, purpose=purpose, context=one.read(data))
            found.append(unit_length(vectors))
            done(1)
    return np.stack(found)


def _numbers(
    vectors: Vectors, contexts: Sequence[Lent], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Spread, distance, their ratio and closer: of each policy's draws, and of all contexts."""
    policies = {ALL: list(range(len(contexts)))}
    for number, one in enumerate(contexts):
        policies.setdefault(one.context, []).append(number)
    rows = []
    for policy, numbers in policies.items():
        if len(numbers) < 2:  # `none` is one context
            continue
        these = vectors[numbers]
        spread, distance = measures.spread(these), measures.distance(these)
        estimates = {
            "spread": measures.mean_of(spread, rng),
            "distance": measures.mean_of(distance, rng),
            "spread / distance": Estimate(float(spread.mean() / distance.mean())),
            "closer": measures.mean_of(measures.closer(these), rng),
        }
        for measure, estimate in estimates.items():
            numbers_of = {k: float(f"{v:.6g}") for k, v in estimate._asdict().items()}
            rows.append(
                {"context": policy, "compared": len(these), "measure": measure, **numbers_of}
            )
    return rows


def _points(
    vectors: Vectors, contexts: Sequence[Lent], texts: Sequence[str]
) -> list[dict[str, Any]]:
    """Where each document lies in each context, along the first two principal components."""
    places, shares = first_two_components(vectors)
    return [
        {
            "context": one.context,
            "draw": one.draw,
            "document": number,
            "text": " ".join(text.split())[:TEXT_SHOWN],
            "x": round(float(x), 5),
            "y": round(float(y), 5),
            "x_share": round(float(shares[0]), 5),
            "y_share": round(float(shares[1]), 5),
        }
        for one, in_context in zip(contexts, places, strict=True)
        for number, (text, (x, y)) in enumerate(zip(texts, in_context, strict=True))
    ]


def first_two_components(
    vectors: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Places (contexts, documents, 2) of vectors (contexts, documents, dim), and both shares.

    The components are those of all vectors together; each points to where its greatest weight is
    positive, so that a picture is not mirrored by chance.
    """
    from sklearn.decomposition import PCA

    flat = vectors.reshape(-1, vectors.shape[-1]).astype(np.float64)
    pca = PCA(2, svd_solver="full").fit(flat)
    axes = pca.components_
    signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
    places = (pca.transform(flat) * signs).reshape(*vectors.shape[:2], 2)
    return places, pca.explained_variance_ratio_
