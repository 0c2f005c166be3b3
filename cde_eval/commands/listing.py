"""`cde-eval tasks` and `cde-eval encoders`: what can be named."""

from __future__ import annotations

from pathlib import Path


def tasks(
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
        if not wanted or source.kind.lower() in wanted:
            print(f"{source.name:<40} {source.kind:<24} {source.origin}")


def encoders() -> None:
    """List what can be named after --model."""
    from cde_eval.encoders import encoder_kinds

    for name, point in encoder_kinds().items():
        doc = (point.load().__doc__ or "").strip().splitlines()
        print(f"{name:<12} {doc[0] if doc else point.value}")
    print("Or a model folder, or a hub name such as sentence-transformers/all-MiniLM-L6-v2.")
