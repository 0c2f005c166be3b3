"""The command `cde-eval`: arguments in, one call, results out.

cde-eval mteb        score models on tasks, each task lending its own context
cde-eval candidates  what a first retriever finds, as TREC run files
cde-eval beir-small  fast BEIR: models rank what a first retriever has found
cde-eval compare     is one run better than another, and how sure is it?
cde-eval domains · context-size · tokens-per-document · context-space     what context does
cde-eval idf · neighbours · clusters · difficulty                         corpora and batches
cde-eval position-bias · geometry                                         what vectors are like
cde-eval cache       what is kept on disk, and making room
cde-eval bake        put a model and the context it has read into a folder that only needs `encode`
cde-eval report      tables, figures and a page from result files; runs no model
cde-eval tasks       what can be named after --tasks
cde-eval encoders    what can be named after --model
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import tyro

from cde_core.command_line import carry_out, deferred
from cde_core.errors import CdeWarning
from cde_eval.commands.bake import bake
from cde_eval.commands.beir_small import beir_small
from cde_eval.commands.cache import cache
from cde_eval.commands.candidates import candidates
from cde_eval.commands.clusters import clusters
from cde_eval.commands.compare import compare
from cde_eval.commands.context_size import context_size
from cde_eval.commands.context_space import context_space
from cde_eval.commands.difficulty import difficulty
from cde_eval.commands.domains import domains
from cde_eval.commands.geometry import geometry
from cde_eval.commands.idf import idf
from cde_eval.commands.listing import encoders, tasks
from cde_eval.commands.mteb import mteb
from cde_eval.commands.neighbours import neighbours
from cde_eval.commands.position_bias import position_bias
from cde_eval.commands.report import report
from cde_eval.commands.tokens_per_document import tokens_per_document

COMMANDS: dict[str, Callable[..., None]] = {
    "mteb": mteb,
    "candidates": candidates,
    "beir-small": beir_small,
    "compare": compare,
    "domains": domains,
    "context-size": context_size,
    "tokens-per-document": tokens_per_document,
    "context-space": context_space,
    "idf": idf,
    "neighbours": neighbours,
    "clusters": clusters,
    "difficulty": difficulty,
    "position-bias": position_bias,
    "geometry": geometry,
    "cache": cache,
    "bake": bake,
    "report": report,
    "tasks": tasks,
    "encoders": encoders,
}

app = tyro.extras.SubcommandApp()
for name, command in COMMANDS.items():
    app.command(name=name)(deferred(command))


def main() -> None:
    """Run a command; a `CdeError` becomes one line and exit status 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", CdeWarning)
    warnings.showwarning = _as_one_line
    carry_out("cde-eval", _parsed)


def _parsed() -> Callable[[], None]:
    call: Callable[[], None] = app.cli(
        prog="cde-eval",
        description="Text encoders on MTEB and BEIR, with context.",
        args=sys.argv[1:] or ["--help"],
    )
    return call


def _as_one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"cde-eval: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
