"""The command `cde-train`: arguments in, one call, results to stdout.

cde-train RECIPE.yaml [--steps 40 --output DIR]     train; the same again continues
cde-train run       the same by name; the folder of a started run continues it
cde-train data      read pairs, and say what they are
cde-train cluster   cluster a recipe's pairs, and show some clusters
cde-train filter    keep the pairs that a model agrees with
cde-train mine      give pairs hard negatives
cde-train score     give pairs a teacher's scores
cde-train start     the untrained model that a recipe starts from
cde-train sweep     train a recipe for every cell of a grid
cde-train recipes   what the recipes of a folder are about
cde-train init      an untrained two-stage model out of pretrained encoders
cde-train export    a model in the format that its authors publish
cde-train difference  a model without the backbones that it was made of

Whatever follows a recipe overrides its fields: `cde-train RECIPE.yaml --help` lists them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from cde_core.command_line import carry_out, deferred
from cde_core.commands.filter import filter
from cde_core.commands.mine import mine
from cde_core.commands.models import difference, export, init
from cde_core.commands.score import score
from cde_core.commands.training import cluster, data, recipes, run, start, sweep
from cde_core.errors import ConfigError, did_you_mean

COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__: command
    for command in (
        *(run, data, cluster, filter, mine, score, start, sweep, recipes),
        *(init, export, difference),
    )
}

DESCRIPTION = """Train text encoders that read their corpus first.

`cde-train RECIPE.yaml` trains a recipe; whatever follows it overrides its fields, such as
--steps 40 --output DIR, and `cde-train RECIPE.yaml --help` lists them. The same command on a
started DIR continues it."""

app = tyro.extras.SubcommandApp()
for command in COMMANDS.values():
    app.command(deferred(command))


def main() -> None:
    """Run the command, and print what the user can mend as one line."""
    carry_out("cde-train", lambda: _parsed(_with_command(sys.argv[1:])))


def _with_command(arguments: Sequence[str]) -> Sequence[str]:
    """A recipe in the place of a command is to be run."""
    arguments = arguments or ["--help"]
    first = arguments[0]
    if first.startswith("-") or first in COMMANDS:
        return arguments
    if not Path(first).suffix and not Path(first).exists():
        raise ConfigError(
            f"{first} is neither a command nor a recipe.{did_you_mean(first, COMMANDS)} "
            "`cde-train --help` lists the commands."
        )
    return ["run", *arguments]


def _parsed(arguments: Sequence[str]) -> Callable[[], None]:
    """Give a command its own options, and what is left to the recipe's fields."""
    command = COMMANDS.get(arguments[0]) if len(arguments) > 1 else None
    parameters = inspect.signature(command).parameters if command else {}
    if command is None or "fields" not in parameters or arguments[1].startswith("-"):
        return _by_name(arguments)
    if command is not run and {"-h", "--help"} & {*arguments}:
        return _by_name([arguments[0], "--help"])
    own, fields = _split(arguments[1:], {f"--{name}" for name in parameters} - {"--fields"})
    with_fields = functools.partial(command, fields=tuple(fields))
    return tyro.cli(deferred(with_fields), prog=f"cde-train {arguments[0]}", args=own)


def _by_name(arguments: Sequence[str]) -> Callable[[], None]:
    call: Callable[[], None] = app.cli(prog="cde-train", description=DESCRIPTION, args=arguments)
    return call


def _split(arguments: Sequence[str], own: set[str]) -> tuple[list[str], list[str]]:
    """Options named in `own`, and what stands before any; then all others, with their values."""
    parts: tuple[list[str], list[str]] = ([], [])
    into = parts[0]
    for argument in arguments:
        if argument.startswith("-") and not _is_number(argument):
            into = parts[argument.partition("=")[0] not in own]
        into.append(argument)
    return parts


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    main()
