"""A command line into a call, by tyro; a mistake in it is one line, like every mistake.

    arguments ──▶ parse ──▶ call ──▶ carry_out ──▶ exit status
                    └──▶ ConfigError, out of the box of many lines that tyro prints

A mistake that the user can mend is answered in one line, with exit status 2, and so is a place that
cannot be read or written; anything else is our bug and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from cde_core.errors import CdeError, ConfigError

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FRAME = re.compile(r"^[╭╰].*$|^│| *│$|\A .*\n -+ *$", flags=re.MULTILINE)
"""Of a box, and of what stands for one where the terminal has no such characters."""
RULE = re.compile(r"^[─-]{3,} *$", flags=re.MULTILINE)
HELP_OF_AN_OPTION = re.compile(r"^ {8}.*\n?", flags=re.MULTILINE)

UNUSABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
}
"""What the system says of a place that is not fit for use: its rights, its room or its kind. Not of
one that is not there, which whoever looks for it should have said."""


def carry_out(prog: str, parse: Callable[[], Callable[[], None]]) -> None:
    """Parse a command line, and make the call that it means.

    Args:
        prog: The command, with which lines about mistakes begin.
        parse: Returns the call; what tyro says of mistakes may come out of it.
    """
    try:
        with mistakes_in_one_line():
            call = parse()
        call()
    except CdeError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"{prog}: stopped; the same command continues.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read what we print has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        print(f"{prog}: {_unusable(error)}", file=sys.stderr)
        sys.exit(2)


@contextlib.contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """Make what tyro says of a mistake, and ends the program with, an error of ours.

    Only parsing belongs in here: what a command itself prints to stderr would be kept back.

    Raises:
        ConfigError: With what was asked, what there is, and how to get help.
        SystemExit: After `--help`.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as ended:
        if not ended.code:
            raise
        raise ConfigError(_one_line(said.getvalue())) from None


def deferred(command: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """A command that is parsed like `command`, and returns the call for `carry_out` to make."""

    @functools.wraps(command)
    def call(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(command, *args, **kwargs)

    return call


def _unusable(error: OSError) -> str:
    place = "A file" if error.filename is None else f"{error.filename}"
    return (
        f"{place} cannot be read or written ({error.strerror}); mend that, or name another place "
        "(of the cache, by CDE_EVAL_CACHE)."
    )


def _one_line(box: str) -> str:
    """What a box says, less its frame and the explanations of options, which --help has."""
    text = textwrap.dedent(FRAME.sub("", COLOURS.sub("", box)))
    parts = [" ".join(HELP_OF_AN_OPTION.sub("", part).split()) for part in RULE.split(text)]
    said = [part.rstrip(".") for part in parts if not part.startswith("Argument helptext")]
    return f"{'. '.join(said)}."
