"""Everything that is raised on purpose.

    CdeError
    ├── ConfigError     a setting, name or recipe that cannot be used as it stands
    ├── DataError       a file whose content is not what its format promises
    ├── ModelError      a model folder or name that does not give a model
    ├── TaskError       a task that does not exist, or that an encoder cannot do
    ├── ContextError    a context that cannot be drawn or read
    └── TrainingError   a run that cannot go on

A `CdeError` is for the user: the commands print its text as one line (what was asked, what was
found, what to do) and end with status 2, as they do where the system says that a place cannot be
read or written. Any other exception is our bug and keeps its traceback.
A `CdeWarning` is for the user too: something was not as it should be and has been mended.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CdeError(Exception):
    """A mistake that the user can mend; its text is one line that says how."""


class ConfigError(CdeError):
    """A setting, name or recipe that cannot be used as it stands."""


class DataError(CdeError):
    """A file whose content is not what its format promises."""


class ModelError(CdeError):
    """A model folder or name that does not give a model."""


class TaskError(CdeError):
    """A task that does not exist, or that an encoder cannot do."""


class ContextError(CdeError):
    """A context that cannot be drawn or read."""


class TrainingError(CdeError):
    """A run that cannot go on."""


class CdeWarning(UserWarning):
    """Something was not as it should be, and work goes on without it."""


def did_you_mean(asked: str, known: Iterable[str], *, most: int = 3) -> str:
    """Offer the known names nearest to `asked`, as the end of an error message.

    Returns:
        " Did you mean 'a' or 'b'?" with up to `most` names, or "" where none is near.
    """
    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(asked.lower(), list(by_lower), n=most, cutoff=0.6)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(by_lower[name]) for name in close)}?"
