"""The commands that train: run, data, cluster, start, sweep, recipes.

    recipe ──▶ data ──▶ cluster ──▶ start ──▶ run ──▶ model        each shows what the next will use

What they import is imported inside, so that `--help` waits for nothing.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cde_core.errors import ConfigError
from cde_core.settings.bounds import at_least

if TYPE_CHECKING:
    from cde_core.recipe import Recipe

Named = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")]
Fields = Annotated[tuple[str, ...], tyro.conf.Suppress]
"""What of the command line overrides fields of a recipe; `main` fills it in."""


def run(recipe: Named, /, *, fields: Fields = ()) -> None:
    """Train a recipe, or continue a started run; `cde-train RECIPE` does the same.

    Every field of a recipe can be overridden; `cde-train RECIPE --help` lists them with what the
    recipe says. Under torchrun, devices share every batch.

    Args:
        recipe: YAML file, or the folder of a started run.
        fields: Such as --steps 40 --batches.size 64.
    """
    chosen = _recipe(recipe, fields)
    if chosen.task == "span-corruption":
        from cde_core.train.pretraining.pretrainer import pretrain as train
    else:
        from cde_core.train.trainer import train  # imports torch; --help must not wait for it

    model = train(chosen)
    if os.environ.get("RANK", "0") == "0":
        print(f"Model: {model}\nScore it with: cde-eval mteb --model {model}")


def data(
    sources: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE|SOURCE ...")
    ],
    /,
    *,
    only_domains: tuple[str, ...] = (),
    exclude_domains: tuple[str, ...] = (),
    skip_bad_rows: bool = False,
    most_per_source: int = 0,
) -> None:
    """Read pairs, and say how many there are, of which domains and how long.

    Args:
        sources: A recipe, or sources: files, folders, hub:ORG/NAME, docs.
        only_domains: Domains to keep; none named: all.
        exclude_domains: Domains to leave out.
        skip_bad_rows: Count rows that cannot be read, instead of stopping at the first.
        most_per_source: Pairs read of every source, from its beginning; 0: all.
    """
    from cde_core.recipe import DataConfig, read_recipe

    if not sources:
        raise ConfigError("Name what to read: a recipe, files, folders, hub:ORG/NAME or docs.")
    if len(sources) == 1 and sources[0].endswith((".yaml", ".yml")):
        asked = read_recipe(Path(sources[0])).data
    else:
        asked = DataConfig(sources=sources)
    asked = dataclasses.replace(
        asked,
        only_domains=only_domains or asked.only_domains,
        exclude_domains=exclude_domains or asked.exclude_domains,
        skip_bad_rows=skip_bad_rows or asked.skip_bad_rows,
        most_per_source=most_per_source or asked.most_per_source,
    )
    from cde_core.train.data.summary import as_text, summarise
    from cde_core.train.preparation import read_pairs

    print(as_text(summarise(read_pairs(asked, _say))))


def cluster(
    recipe: Named,
    /,
    *,
    samples: int = 3,
    fields: Fields = (),
) -> None:
    """Cluster a recipe's pairs; print sizes, inertia and samples.

    Every field of the recipe can be overridden, such as --clusters.size 64. A run of the same
    recipe finds these clusters again and need not make them.

    Args:
        recipe: YAML file, or the folder of a started run.
        samples: Clusters to show, chosen by the recipe's seed.
        fields: Such as --clusters.size 64.
    """
    at_least("--samples", samples, 0)
    chosen = _recipe(recipe, fields)
    from cde_core.train.batching.cluster_report import describe_clusters
    from cde_core.train.preparation import clusters_of, read_pairs

    pairs = read_pairs(chosen.data, _say)
    clusters = clusters_of(chosen, pairs, _say)
    print(describe_clusters(clusters, pairs, samples=samples, seed=chosen.seed))


def start(recipe: Named, /, *, out: Path, fields: Fields = ()) -> None:
    """Write the model that a recipe starts from, untrained: what its training is compared with.

    Every field of the recipe can be overridden, such as --seed 1.

    Args:
        recipe: YAML file, or the folder of a started run.
        out: Folder for the model.
        fields: Such as --seed 1.
    """
    chosen = _recipe(recipe, fields)
    from cde_core.model.checkpoint import save
    from cde_core.train.starting_model import starting_model
    from cde_core.train.starting_t5 import starting_language_model

    if chosen.task == "span-corruption":
        encoder = starting_language_model(chosen.model, seed=chosen.seed)
    else:
        encoder = starting_model(
            chosen.model, temperature=chosen.loss.temperature, seed=chosen.seed
        )
    print(f"{chosen.name or recipe}, untrained  →  {save(encoder, out)}")


def sweep(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SWEEP")],
    /,
    *,
    output: Path | None = None,
    parallel: int | None = None,
    fields: Fields = (),
) -> None:
    """Train a recipe for every cell of a grid, each in a process of its own.

    The same command goes on where it stopped, and skips what is finished. Every field of the
    recipe can be overridden for all cells, such as --steps 40 --data.sources pairs.jsonl.

    Args:
        file: A sweep, such as those in training/sweeps.
        output: Folder with a folder per cell, and sweep.csv; by default what the file says.
        parallel: Cells at once; by default one per GPU, or else one.
        fields: Such as --steps 40.
    """
    from cde_core.train.sweep import (
        Outcome,
        over_seeds,
        read_sweep,
        run_sweep,
        table,
        visible_gpus,
    )

    plan = read_sweep(file, output=output, fields=fields)

    def report(outcome: Outcome) -> None:
        ended = outcome.error or ("was finished before" if outcome.skipped else "finished")
        _say(f"{outcome.cell.name}: {ended}")

    _say(f"{len(plan.cells)} cells; what each prints is in {plan.output}/CELL.log")
    # Told to end, cells save their state and end, as they do on Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        outcomes = run_sweep(plan, parallel=parallel, devices=visible_gpus(), report=report)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on from there")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, before)
    found = table(outcomes)
    if len(found):
        found.to_csv(plan.output / "sweep.csv", index=False)
        shown = over_seeds(outcomes)
        shown = found if shown is None else shown
        print(f"{shown.to_string(index=False)}\n\nTable of runs: {plan.output / 'sweep.csv'}")
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        print(f"cde-train: {outcome.cell.name}: {outcome.error}", file=sys.stderr)
    if failed:
        sys.exit(2)


def recipes(folder: Annotated[Path, tyro.conf.Positional] = Path("training"), /) -> None:
    """Say what the recipes and sweeps of a folder are about.

    Args:
        folder: Folder with YAML files.
    """
    from cde_core.recipe import read_mapping

    files = sorted(folder.glob("*.yaml")) + sorted(folder.glob("*/*.yaml"))
    if not files:
        raise ConfigError(f"{folder} holds no recipes; name a folder with YAML files.")
    for file in files:
        try:
            about = " ".join(str(read_mapping(file).get("about", "")).split())
        except ConfigError as error:  # one broken file hides no other
            about = str(error)
        print(f"{file}\n    {about}")


def _recipe(name: str, fields: Sequence[str]) -> Recipe:
    """The recipe of a file or of a started run's folder, with what overrides its fields."""
    from cde_core.recipe import read_recipe, with_overrides

    folder = Path(name)
    if folder.is_dir() and not (folder / "recipe.yaml").is_file():
        raise ConfigError(
            f"{name} is a folder without recipe.yaml, so no run started there; name a recipe."
        )
    started = folder.is_dir()
    recipe = read_recipe(folder / "recipe.yaml" if started else folder)
    if started:
        recipe = dataclasses.replace(recipe, output=folder)
    recipe = with_overrides(recipe, fields, prog=f"cde-train {name}")
    if not recipe.data.sources:
        raise ConfigError(f"{name} names no data; add --data.sources with files, or docs.")
    return dataclasses.replace(recipe, output=recipe.output or Path("runs", recipe.name))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
