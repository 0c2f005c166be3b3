"""What a text is for, and the prefix that tells a model so.

    text ──▶ prefix_for(purpose) + text ──▶ tokenise ──▶ batches of similar length

Models of the Nomic and CDE family read a short prefix in front of every text: a query of a search
task starts with "search_query: ", a sentence to be clustered with "clustering: ". A `Purpose`
says what a text is for in MTEB's own words; the table from purposes to prefixes is here and
nowhere else, so queries, documents and context documents cannot disagree about it.

Source: Morris and Rush (2024), section 10.12, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["query", "document", "text"]
"""Which side of a task a text stands on: `text` where a task has only one side."""

SEARCH_TYPES = frozenset({"Retrieval", "InstructionRetrieval"})
SYMMETRIC_SEARCHES = frozenset({"QuoraRetrieval", "QuoraRetrievalHardNegatives"})
"""Search tasks whose documents are questions too: both sides are queries."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a text is for: MTEB's task type, the side it stands on, and the task's name."""

    task_type: str
    role: Role = "text"
    task_name: str = ""


def prefix_for(purpose: Purpose) -> str:
    """Prefix that a text with this purpose carries.

    Search tasks tell queries from documents; clustering has a prefix of its own; every other
    type, reranking included, ran under "classification: " in the published results.

    Source: Morris and Rush (2024), section 10.12; Quora is symmetric in the authors' code.
    """
    if purpose.task_type in SEARCH_TYPES:
        is_query = purpose.role == "query" or purpose.task_name in SYMMETRIC_SEARCHES
        return "search_query: " if is_query else "search_document: "
    return "clustering: " if purpose.task_type == "Clustering" else "classification: "


def token_budget_batches(
    lengths: Sequence[int], budget: int, *, extra: int = 0
) -> Iterator[list[int]]:
    """Group texts of similar length, so that little is computed on padding.

    The longest come first: if memory is too small, it shows at once.

    Args:
        lengths: Tokens of every text.
        budget: Most tokens in a batch, counted as it is padded; a text longer than that is alone.
        extra: Rows that every text costs beyond its tokens (a context that travels along).

    Yields:
        Indices into `lengths`; each index comes once.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if batch and (longest + extra) * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
