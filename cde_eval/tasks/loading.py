"""Load a task's data, or say in one line why it cannot be."""

from __future__ import annotations

from mteb.abstasks import AbsTask

from cde_core.errors import CdeError, TaskError
from cde_eval.tasks.catalogue import TaskSource


def load_task(task: AbsTask, source: TaskSource) -> None:
    """Load the data of a task that `source` has made.

    Raises:
        TaskError: If it cannot be loaded.
    """
    try:
        task.load_data()
    except CdeError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        where = "the hub" if source.origin == "mteb" else source.origin
        raise TaskError(
            f"The data of {source.name} cannot be loaded from {where}: {reason.rstrip('.')}. "
            "Download it, or name the folder that holds it with --data."
        ) from error
