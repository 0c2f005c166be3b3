"""A search task on twelve short documents of words that the tiny models know."""

from datasets import Dataset
from mteb.abstasks import AbsTask

from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.local import local_task

DOCUMENTS = [
    f"the {a} and the {b} of {c}"
    for a, b, c in zip(
        "cat dog law river mill flour oven bread court judge fish net".split(),
        "boat sail wind rain sun moon star light dark night day king".split(),
        "queen town road bridge stone wood fire water tax cat dog law".split(),
        strict=True,
    )
]


def word_task() -> AbsTask:
    """Query i asks for document i, and every third for the next one too."""
    judged = {f"q{i}": {f"d{i}": 1} | ({f"d{i + 1}": 1} if i % 3 == 0 else {}) for i in range(8)}
    data = {
        "corpus": Dataset.from_dict({"id": [f"d{i}" for i in range(12)], "text": DOCUMENTS}),
        "queries": Dataset.from_dict(
            {"id": list(judged), "text": [" ".join(one.split()[1:5]) for one in DOCUMENTS[:8]]}
        ),
        "relevant_docs": judged,
        "top_ranked": None,
    }
    return local_task(
        "TinyWords",
        "Retrieval",
        read=lambda: {"default": {"test": data}},
        revision="1",
        description="tiny",
    )


SOURCE = TaskSource("TinyWords", "built-in", word_task, "Retrieval")
