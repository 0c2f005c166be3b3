"""The command `cde-eval`: arguments in, one call, results out.

cde-eval mteb       score models on tasks, each task lending its own context
cde-eval bake       put a model and the context it has read into one folder that only needs `encode`
cde-eval report     tables, figures and a page from result files; runs no model
cde-eval tasks      what can be named after --tasks
cde-eval encoders   what can be named after --model
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import tyro

from cde_core.errors import CdeError

app = tyro.extras.SubcommandApp()

Device = Literal["auto", "cpu", "cuda", "mps"]


@app.command(name="mteb")
def mteb_(
    model: tuple[str, ...],
    tasks: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
    benchmark: str | None = None,
    data: tuple[Path, ...] = (),
    context: tuple[str, ...] = ("corpus",),
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    protocol: str = "paper",
    rerank_prefix: Literal["classification", "search"] = "classification",
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
    output: Path = Path("results"),
) -> None:
    """Score models on MTEB and BEIR tasks, each task lending its own context.

    Without --tasks, --benchmark and --data it runs the built-in documentation tasks. Results are
    written as they are finished; the same command continues a run that was stopped.

    Args:
        model: Models, in order: minilm, bm25, centred:minilm, a folder, a hub name.
        tasks: Tasks by name, in order; `cde-eval tasks` lists them.
        types: Only tasks of these MTEB types, such as Retrieval or STS.
        benchmark: All tasks of an mteb benchmark, such as "MTEB(eng, v2)".
        data: Folders with data: BEIR folders, folders in the hub's layout, or folders of those.
        context: What contextual models read first: corpus, random, none, task:NAME, file:PATH.
        size: Documents to read; by default as many as the model reads by itself.
        draws: Samples to draw per task; the score is their mean, with its spread.
        seed: Seed of the first draw.
        protocol: Rules by which a task lends context: paper, author or mteb.
        rerank_prefix: Prefix of reranking tasks, for models that have prefixes.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision of the model; vectors are always float32.
        output: Results folder.
    """
    from tqdm.auto import tqdm

    from cde_eval.contexts import ContextPolicy
    from cde_eval.encoders import LoadOptions
    from cde_eval.protocols import protocol_named
    from cde_eval.run import Evaluation, Failure, evaluate
    from cde_eval.tasks.catalogue import find_tasks

    if not model:
        raise CdeError("--model names no model; `cde-eval encoders` lists what can be named.")
    if draws < 1:
        raise CdeError(f"--draws is {draws}; draw at least one sample.")
    options = LoadOptions(device=_device(device), dtype=dtype)
    policies = tuple(ContextPolicy(source, size, seed) for source in context)
    lent = [policy.argument for policy in policies if policy.kind == "task"]
    plan = Evaluation(
        models=model,
        tasks=tuple(find_tasks(tasks, types=types, benchmark=benchmark, data=data)),
        policies=policies,
        protocol=protocol_named(protocol),
        draws=draws,
        options=options,
        rerank_as_search=rerank_prefix == "search",
        task_lookup=tuple(find_tasks(lent, data=data)) if lent else (),
    )
    outcomes = []
    for outcome in evaluate(plan, output):
        outcomes.append(outcome)
        if not isinstance(outcome, Failure):
            tqdm.write(_finished(outcome), file=sys.stderr)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    records = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    if records:
        _print_tables(records)
        print(f"\nRecords, and mteb's own files, are in {output}.")
    for failure in failures:
        print(f"cde-eval: {failure.reason}", file=sys.stderr)
    if not records or not all(failure.expected for failure in failures):
        sys.exit(2)


@app.command
def bake(
    model: str,
    corpus: Path,
    out: Path,
    size: int | None = None,
    seed: int = 42,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> None:
    """Read a sample of a corpus, and write the model that has read it: a folder for `encode`.

    Folders of centred: and whitened: models load with sentence-transformers alone, those of
    contextual transformers where this package is installed too; README.md in the folder says how.

    Args:
        model: A contextual checkpoint, or centred: or whitened: with a model.
        corpus: Text file (a document a line), JSONL file with a `text` field, or BEIR folder.
        out: Folder to write; new or empty.
        size: Documents to draw; by default as many as the model reads by itself.
        seed: Seed of the draw.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision that the weights are written in.
    """
    from cde_eval.bake import bake
    from cde_eval.encoders import LoadOptions

    options = LoadOptions(device=_device(device), dtype=dtype)
    print(f"Baked: {bake(model, corpus, out, size=size, seed=seed, options=options)}")


@app.command
def report(results: Path = Path("results"), out: Path = Path("reports")) -> None:
    """Write every table and figure that a results folder gives, and a page that shows them.

    Args:
        results: Results folder of `cde-eval mteb --output`.
        out: Folder for tables/, figures/ and index.html.
    """
    from cde_eval.report.page import write_report

    print(f"Report: {write_report(results, out)}")


@app.command(name="tasks")
def tasks_(
    data: tuple[Path, ...] = (),
    types: tuple[str, ...] = (),
    all: bool = False,
    benchmarks: bool = False,
) -> None:
    """List what can be named after --tasks: built-in tasks, and those of data folders.

    Args:
        data: Folders with data, as for `cde-eval mteb`.
        types: Only tasks of these MTEB types.
        all: List every text task of mteb too; their data comes from the hub.
        benchmarks: List mteb's benchmarks instead, for --benchmark.
    """
    from cde_eval.tasks.catalogue import find_tasks, folder_tasks, known_tasks

    if benchmarks:
        import mteb

        print("\n".join(benchmark.name for benchmark in mteb.get_benchmarks()))
        return
    found = [source for folder in data for source in folder_tasks(folder)]
    found += known_tasks() if all else find_tasks() if not data else []
    wanted = {kind.lower() for kind in types}
    for source in found:
        kind = source.task_type or str(source.make().metadata.type)
        if not wanted or kind.lower() in wanted:
            print(f"{source.name:<40} {kind:<24} {source.origin}")


@app.command
def encoders() -> None:
    """List what can be named after --model."""
    from cde_eval.encoders import encoder_kinds

    for name, point in encoder_kinds().items():
        doc = (point.load().__doc__ or "").strip().splitlines()
        print(f"{name:<12} {doc[0] if doc else point.value}")
    print("Or a model folder, or a hub name such as sentence-transformers/all-MiniLM-L6-v2.")


def _device(asked: str) -> str:
    import torch

    if asked != "auto":
        try:
            torch.empty(0, device=asked)
        except (RuntimeError, AssertionError) as error:
            raise CdeError(
                f"There is no device {asked!r} here ({str(error).splitlines()[0]}); use cpu."
            ) from error
        return asked
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _finished(record: Any) -> str:
    scores = ", ".join("–" if one.main is None else f"{one.main:.4f}" for one in record.scores)
    draw = f" draw {record.draw + 1} of {record.draws}" if record.draws > 1 else ""
    return f"{record.task}: {record.model}, context {record.policy}{draw}: {scores}"


def _print_tables(records: list[Any]) -> None:
    from cde_eval.report.tables import as_read, gain_table, score_table

    print(as_read(score_table(records)).to_string(index=False))
    gains = gain_table(records)
    if not gains.empty:
        print(f"\nWhat the corpus as context bought:\n{gains.to_string(index=False)}")


def main() -> None:
    """Run a command; a `CdeError` becomes one line and exit status 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    warnings.simplefilter("ignore")
    try:
        app.cli(prog="cde-eval", description="Text encoders on MTEB and BEIR, with context.")
    except CdeError as error:
        print(f"cde-eval: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("cde-eval: stopped; the same command continues.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
