"""Which documents a task lends as context, and how: three rules that are never mixed.

`paper` is ours and the default: what section 10.12 of the CDE paper describes, without test labels,
without peeking at test text for classification, and with every choice seeded. `author` is what the
authors' evaluation script did, and `mteb` what mteb's wrapper for CDE means to do; both are here so
that numbers published under them can be met. A score belongs to its protocol: tables hold one.

Sources: Morris and Rush (2024), section 10.12; evaluate_mteb.py of github.com/jxmorris12/cde;
cde_models.py of mteb 2.26.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from cde_core.errors import ConfigError, did_you_mean
from cde_core.text import Purpose

PAIR_TYPES = frozenset({"PairClassification", "STS", "BitextMining"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a task's context is drawn, and how vectors are scaled."""

    name: str

    classification_split: Literal["train", "test"]
    """Split whose text a classification task lends; its labels never leave the task."""

    pair_sides: Literal["both", "first"]
    """Whether a task on pairs of sentences lends both sides."""

    clustering_sets: Literal["all", "first"]
    """Whether a clustering task of many sets lends all of them."""

    reranking_documents: Literal["candidates", "relevant", "corpus"]
    """Whether a reranking task lends what is to be ranked, its right answers, or its corpus."""

    context_prefix: Literal["task", "search_document"]
    """Whether context documents carry the prefix of their task or always "search_document: "."""

    replacement: Literal["when needed", "always"]
    """Whether a document may be drawn twice although there are enough."""

    seeded_by: Literal["task", "number"]
    """Whether tasks draw independently, or all from the same stream of random numbers."""

    unit_length: Literal["always", "clustering"]
    """For which tasks the vectors of a contextual encoder are scaled to length one."""

    def context_purpose(self, text: Purpose) -> Purpose:
        """Purpose of the context documents of a task whose documents have the purpose `text`."""
        if self.context_prefix == "search_document":
            return Purpose("Retrieval", "document")
        return text

    def scales(self, task_type: str) -> bool:
        """Whether a contextual encoder's vectors are scaled to length one for this task type."""
        return self.unit_length == "always" or task_type == "Clustering"


PAPER = Protocol(
    name="paper",
    classification_split="train",
    pair_sides="both",
    clustering_sets="all",
    reranking_documents="candidates",
    context_prefix="task",
    replacement="when needed",
    seeded_by="task",
    unit_length="always",
)
AUTHOR = Protocol(
    name="author",
    classification_split="test",
    pair_sides="both",
    clustering_sets="all",
    reranking_documents="relevant",
    context_prefix="task",
    replacement="always",
    seeded_by="task",
    unit_length="clustering",
)
MTEB = Protocol(
    name="mteb",
    classification_split="train",
    pair_sides="first",
    clustering_sets="first",
    reranking_documents="corpus",
    context_prefix="search_document",
    replacement="when needed",
    seeded_by="number",
    unit_length="clustering",
)

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({p.name: p for p in (PAPER, AUTHOR, MTEB)})


def protocol_named(name: str) -> Protocol:
    """The protocol of this name.

    Raises:
        ConfigError: If there is none.
    """
    if name not in PROTOCOLS:
        raise ConfigError(
            f"There is no protocol {name!r}.{did_you_mean(name, PROTOCOLS)} "
            f"The protocols are {', '.join(PROTOCOLS)}."
        )
    return PROTOCOLS[name]
