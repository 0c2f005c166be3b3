"""`cde-eval position-bias`: does it matter where in a document the answer stands?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cde_core.errors import CdeError
from cde_eval.commands.options import FLAT, LOADING, Loading
from cde_eval.commands.outcomes import end

Part = Literal["moved", "tenths", "positions", "spans"]


def position_bias(
    model: tuple[str, ...] = (),
    part: tuple[Part, ...] = ("moved", "tenths", "positions"),
    data: tuple[str, ...] = ("docs",),
    context: tuple[str, ...] = ("corpus", "random", "none"),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    max_queries: int | None = 200,
    longest: int | None = None,
    borders: Literal["words", "paragraphs", "characters"] = "words",
    pooling: tuple[str, ...] = (),
    spans_per_zone: int = 200,
    window: int | None = None,
    loading: Annotated[Loading, FLAT] = LOADING,
    output: Path = Path("results"),
) -> None:
    """Ask whether models dwell in the beginning of documents, and whether context changes it.

    Four parts: moved (the relevant passage at ten places of its document, searched for), tenths
    (a document compared with its ten tenths), positions (where relevant passages stand) and spans
    (what a language model fills in, early and late in its input; --model then names masked or
    span-corruption language models). The same command continues a run that was stopped.

    Args:
        model: Models, in order, as for `cde-eval mteb`; of --part spans: language models.
        part: What to ask: moved, tenths, positions, spans.
        data: docs (built-in pages), docs:PACKAGE, msmarco (through ir_datasets), or folders with
            documents.jsonl and passages.jsonl, or with the files of SQuAD or QMSum.
        context: What contextual models read first: corpus, random, none, file:PATH.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples of context; the scores of a query are averaged over them.
        seed: Seed of the first draw.
        max_queries: Queries, and documents for tenths, at most; chosen by chance.
        longest: Cut documents between paragraphs into sections of so many characters at most.
        borders: Between what a moved passage may stand: words, paragraphs, characters.
        pooling: Of tenths: biencoders with other poolings too, such as cls, mean, lasttoken.
        spans_per_zone: Spans taken out of each tenth of the input; the paper's are 7,000.
        window: Tokens of a text for spans; by default as many as the model reads.
        loading: Device and precision.
        output: Results folder.
    """
    from cde_eval.contexts import ContextPolicy
    from cde_eval.plan import NO_MODEL
    from cde_eval.probes.position.asking import Questions, ask
    from cde_eval.report.position import bias_table

    if not model and set(part) != {"positions"}:
        raise CdeError(NO_MODEL)
    for option, number in (("--draws", draws), ("--max-queries", max_queries)):
        if number is not None and number < 1:
            raise CdeError(f"{option} is {number}; give a number from 1.")
    questions = Questions(
        models=model,
        parts=part,
        data=data,
        policies=tuple(ContextPolicy(source, size, seed) for source in context),
        draws=draws,
        max_queries=max_queries,
        longest=longest,
        borders=borders,
        poolings=pooling,
        spans_per_zone=spans_per_zone,
        window=window,
        options=loading.options(),
    )
    found = ask(questions, output)
    rows = found.rows
    table = bias_table(rows["moved"], rows["tenths"], rows["spans"], rows["positions"])
    if len(table):
        print(table.to_string(index=False))
        print(f"\nRows of every query are in {output / 'probes'}.")
    end(table, found.failures)
