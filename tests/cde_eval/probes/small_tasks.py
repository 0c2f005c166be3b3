"""Three small search tasks of different words."""

from cde_eval.encoders import LoadOptions
from cde_eval.tasks.catalogue import TaskSource
from tests.cde_eval.tasks.tiny_tasks import search_data, tiny_task

OPTIONS = LoadOptions()


def small_task(name: str) -> TaskSource:
    """Four documents and two queries in which the task's name is a word."""
    return TaskSource(
        name,
        "built-in",
        lambda: tiny_task("Retrieval", {"default": {"test": search_data(f"{name} ")}}, name=name),
        "Retrieval",
    )


SMALL_TASKS = tuple(map(small_task, ("Oven", "River", "Tax")))
