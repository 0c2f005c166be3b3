"""All four questions, for several models and data: what the command runs.

Questions ──▶ data × models × parts ──▶ Findings: rows of each part, and what could not be done
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from cde_core.errors import CdeError, DataError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders.kept import load_kept
from cde_eval.encoders.protocol import Encoder
from cde_eval.encoders.registry import LoadOptions
from cde_eval.plan import Failure
from cde_eval.probes.position.inputs import find_passages
from cde_eval.probes.position.moved import MovedPassages, probe_moved
from cde_eval.probes.position.moving import Borders
from cde_eval.probes.position.passages import Passages
from cde_eval.probes.position.pooled import with_pooling
from cde_eval.probes.position.situations import pools_elsewhere, situations
from cde_eval.probes.position.span_models import load_span_model
from cde_eval.probes.position.spans import SPANS_PER_ZONE, probe_spans
from cde_eval.probes.position.starts import probe_starts
from cde_eval.probes.position.tenths import probe_tenths

Part = Literal["moved", "tenths", "positions", "spans"]
PARTS: tuple[Part, ...] = ("moved", "tenths", "positions", "spans")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What is asked of whom."""

    models: tuple[str, ...]
    parts: tuple[Part, ...]
    data: tuple[str, ...]
    policies: tuple[ContextPolicy, ...]
    draws: int = 1
    max_queries: int | None = None
    """Queries, and documents of tenths; None for all."""

    longest: int | None = None
    """Characters of a section, where documents are to be cut."""

    borders: Borders = "words"
    poolings: tuple[str, ...] = ()
    """Other poolings of biencoders, for tenths."""

    spans_per_zone: int = SPANS_PER_ZONE
    window: int | None = None
    """Tokens of a text for spans; None for as many as the model takes."""

    options: LoadOptions = field(default_factory=LoadOptions)

    def chance(self, data: Passages) -> dict[str, Any]:
        """What decides the contexts besides their names."""
        sizes = {str(policy.size or "") for policy in self.policies}
        elsewhere = pools_elsewhere(self.policies, data)
        return {
            "size": "/".join(sorted(sizes)),
            "seed": min((policy.seed for policy in self.policies), default=0),
            **({"pools": elsewhere} if elsewhere else {}),
        }


@dataclass
class Findings:
    """What was found, and what could not be."""

    rows: dict[Part, pd.DataFrame] = field(
        default_factory=lambda: {part: pd.DataFrame() for part in PARTS}
    )
    """For each part, as `cde_eval.probes.table.read_probe` gives them."""

    failures: list[Failure] = field(default_factory=list)


def ask(questions: Questions, output: Path) -> Findings:
    """Ask everything; what one model cannot do does not keep the others from it.

    Args:
        questions: What is asked.
        output: Results folder.

    Raises:
        DataError: If data cannot be read.
    """
    found = Findings()
    for name in questions.data:
        data = find_passages(name, questions.longest)
        for part, about, run in _runs(questions, data, output):
            try:
                rows = run().assign(data=data.name, **about)
            except CdeError as error:
                found.failures.append(Failure(about.get("model", ""), data.name, str(error)))
                continue
            found.rows[part] = pd.concat([found.rows[part], rows], ignore_index=True)
    return found


Run = tuple[Part, dict[str, str], Callable[[], pd.DataFrame]]


def _runs(questions: Questions, data: Passages, output: Path) -> Iterator[Run]:
    """Every part of every model: which, whose, and how it is run."""
    if "positions" in questions.parts:
        yield "positions", {}, partial(probe_starts, data, output)
    for model in questions.models:
        about = {"model": model}
        if "moved" in questions.parts:
            yield "moved", about, partial(_moved, questions, model, data, output)
        for pooling in ("", *questions.poolings) if "tenths" in questions.parts else ():
            run = partial(_tenths, questions, model, pooling, data, output)
            yield "tenths", {**about, "pooling": pooling}, run
        if "spans" in questions.parts:
            yield "spans", about, partial(_spans, questions, model, data, output)


def _moved(questions: Questions, model: str, data: Passages, output: Path) -> pd.DataFrame:
    movable = data.movable()
    if not movable.passages:
        raise DataError(
            f"No passage of {data.name} can be moved, since each fills more than half of its "
            "document; give data with longer documents, or leave out --part moved."
        )
    encoder = load_kept(model, questions.options)
    plan = MovedPassages(
        data=movable.chosen(questions.max_queries),
        borders=questions.borders,
        device=questions.options.device,
        about=questions.chance(data),
    )
    return probe_moved(model, encoder, plan, _todo(questions, encoder), output)


def _tenths(
    questions: Questions, model: str, pooling: str, data: Passages, output: Path
) -> pd.DataFrame:
    encoder = load_kept(model, questions.options)
    if pooling:
        encoder = with_pooling(encoder, pooling)
    return probe_tenths(
        model,
        encoder,
        data,
        _todo(questions, encoder),
        output,
        most=questions.max_queries,
        about={**questions.chance(data), "pooling": pooling},
    )


def _spans(questions: Questions, model: str, data: Passages, output: Path) -> pd.DataFrame:
    return probe_spans(
        model,
        load_span_model(model, questions.options.device),
        data,
        output,
        per_zone=questions.spans_per_zone,
        window=questions.window,
    )


def _todo(questions: Questions, encoder: Encoder) -> list[Any]:
    return list(situations(encoder, questions.policies, questions.draws))
