"""An encoder of the tests that other machines find by name, and that one of them is stuck in.

    "listed:FOLDER"     notes every text that it begins, and on which machine, in FOLDER/begun
    "stuck:FOLDER"      the same; on the machine named in FOLDER/stuck it never comes to an end

The others wait until that machine has begun, so that it is killed with a text in hand. They wait
in `open`: a named pipe opens when both ends are there.
"""

from collections.abc import Sequence
from pathlib import Path

import ray

from cde_core.errors import TaskError
from cde_core.text import Purpose
from cde_eval.encoders import LoadOptions
from cde_eval.vectors import Vectors
from tests.cde_eval.tiny_encoder import TinyEncoder


class Listed(TinyEncoder):
    """Notes what it does in a folder, since it does it in another process."""

    def __init__(self, folder: Path) -> None:
        revision = folder / "revision"
        super().__init__(revision=revision.read_text() if revision.exists() else "1")
        self.folder = folder

    def encode(
        self, texts: Sequence[str], *, purpose: Purpose, context: Vectors | None = None
    ) -> Vectors:
        if purpose.task_type == "STS":
            raise TaskError("It does no STS.")
        if purpose.task_type == "Summarization":
            raise ZeroDivisionError("one\ntwo")
        if ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
            machine = ray.get_runtime_context().get_node_id()
            with (self.folder / "begun").open("a") as file:
                file.writelines(f"{machine} {text}\n" for text in texts)
            self.begin(machine)
        return super().encode(texts, purpose=purpose, context=context)

    def begin(self, machine: str) -> None:
        """What comes before a text."""


class Stuck(Listed):
    """Never comes to an end on one machine."""

    def begin(self, machine: str) -> None:
        has_begun = self.folder / "has_begun"
        if machine == (self.folder / "stuck").read_text():
            has_begun.touch()
            (self.folder / "pipe").open("w").close()
            (self.folder / "never").open().close()
        elif not has_begun.exists():
            (self.folder / "pipe").open().close()


def load_listed(argument: str, options: LoadOptions) -> Listed:
    return Listed(Path(argument))


def load_stuck(argument: str, options: LoadOptions) -> Stuck:
    return Stuck(Path(argument))
