"""What a model in a folder is called: the folder's name, or that of the run that wrote it.

    path/to/my-model  ──▶ local/my-model        runs/docs-tiny/model ──▶ local/docs-tiny

Every run of `cde-train` writes a folder `model`; its name says nothing, and two of them are to be
told apart in one table.
"""

from __future__ import annotations

from pathlib import Path

LOCAL = "local/"

OF_A_RUN = "model"
"""Name of the folder of the model in the folder of a run."""


def local_name(folder: Path) -> str:
    """The name of the model in a folder, as records have it."""
    return f"{LOCAL}{last_part(folder.resolve())}"


def last_part(path: Path) -> str:
    """The part of a path that tells models apart: the last, or the one before `model`."""
    return path.parent.name or path.name if path.name == OF_A_RUN else path.name
