"""Choose the documents that a contextual encoder reads first.

    pool of documents ──▶ draw_sample ──▶ encoder.read_context ──▶ encoder.encode
         ▲
    corpus · candidates · random · task:NAME · file:PATH · none

A contextual encoder embeds a text differently in a corpus of tax law than in a corpus of recipes.
It learns which corpus it is in from a small sample of documents, and this module draws that
sample. The draw is part of the measurement: another sample gives slightly different vectors, so
where it came from, its size and its seed travel with every result.

Method: Morris and Rush (2024), section 10.12, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cde_core.errors import ConfigError, ContextError, did_you_mean
from cde_eval.protocols import Protocol

SOURCES = ("corpus", "candidates", "random", "none", "task:NAME", "file:PATH")


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """Whose documents are read, and how many."""

    source: str
    """corpus (the task's own), candidates (of each query, its own), random (built-in texts of other
    domains), none, task:…, file:…."""

    size: int | None = None
    """Documents to draw; None for as many as the encoder reads by itself."""

    seed: int = 42
    """First seed; draw number i uses seed + i."""

    @property
    def kind(self) -> str:
        """The part of `source` before the colon."""
        return self.source.partition(":")[0]

    @property
    def argument(self) -> str:
        """The part of `source` after the colon."""
        return self.source.partition(":")[2]

    def __post_init__(self) -> None:
        kinds = [source.partition(":")[0] for source in SOURCES]
        if self.kind not in kinds:
            raise ConfigError(
                f"There is no context {self.source!r}.{did_you_mean(self.kind, kinds)} "
                f"A context is one of {', '.join(SOURCES)}."
            )
        if bool(self.argument) != (self.kind in ("task", "file")):
            raise ConfigError(
                f"The context {self.source!r} cannot be read; write one of {', '.join(SOURCES)}."
            )
        if self.kind == "file" and not Path(self.argument).exists():
            raise ContextError(
                f"The context {self.source!r} does not exist; give a text file (a document a "
                "line), a JSONL file with a `text` field, or a BEIR folder."
            )
        if self.size is not None and self.size < 1:
            raise ConfigError(
                f"A context of {self.size} documents cannot be drawn; give --size a number from 1, "
                "or --context none."
            )


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents drawn from a pool, and how."""

    documents: tuple[str, ...]
    """Texts without prefix, in the order they are read; the first-stage order of some models."""

    source: str
    """Where they came from: `corpus:NFCorpus/test`, `file:notes.txt`."""

    pool: int
    """How many documents there were to choose from."""

    seed: int
    """Seed of this draw, before the task is mixed in."""

    with_replacement: bool
    """Whether a document may be in the sample twice."""

    def record(self) -> dict[str, Any]:
        """What a result says about its context; the documents themselves by their hash."""
        digest = hashlib.sha256("\0".join(self.documents).encode("utf-8", "replace")).hexdigest()
        return {
            "source": self.source,
            "documents": len(self.documents),
            "pool": self.pool,
            "seed": self.seed,
            "with_replacement": self.with_replacement,
            "sha256": digest,
        }


def draw_sample(
    pool: Sequence[str], size: int | None, *, source: str, key: str, seed: int, protocol: Protocol
) -> Sample:
    """Draw documents from a pool.

    Without replacement while the pool lasts. A pool smaller than `size` gives every document
    once and then more of them by chance (protocol `paper`), or all by chance (the others).

    Args:
        pool: Texts to choose from.
        size: How many to draw; None for all of them, in their order.
        source: Where the pool comes from, for the record.
        key: Task, split and subset; tasks draw independently of one another and of their order.
        seed: Seed of the draw.
        protocol: Says whether documents may repeat and what the seed is mixed with.

    Raises:
        ContextError: If the pool is empty.
    """
    if not len(pool):
        raise ContextError(f"{source} has no documents to read as context; use --context none.")
    if size is None:
        return Sample(tuple(pool), source, len(pool), seed, with_replacement=False)
    rng = _generator(key, seed, protocol)
    repeats = protocol.replacement == "always" or size > len(pool)
    if protocol.name == "paper" and size > len(pool):
        more = rng.choice(len(pool), size - len(pool), replace=True)
        rows = np.concatenate([rng.permutation(len(pool)), more])
    else:
        rows = rng.choice(len(pool), size, replace=repeats)
    return Sample(tuple(pool[int(row)] for row in rows), source, len(pool), seed, repeats)


def _generator(key: str, seed: int, protocol: Protocol) -> np.random.Generator:
    if protocol.seeded_by == "number":
        return np.random.default_rng(seed)
    digest = hashlib.sha256(f"{seed}\0{key}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def file_documents(path: Path) -> list[str]:
    """Documents of a file: BEIR folder, JSONL with `text` (and `title`), or text, one a line.

    Raises:
        ContextError: If a line cannot be read, with its number.
    """
    if path.is_dir():
        path = path / "corpus.jsonl"
    if not path.is_file():
        raise ContextError(f"{path} does not exist; `file:` takes a file or a BEIR folder.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ContextError(f"{path} is not text in UTF-8 ({error}).") from error
    lines = text.split("\n")  # splitlines would also split at U+2028, which JSON allows in a string
    if path.suffix == ".jsonl":
        return list(_jsonl_documents(path, lines))
    return [line for line in lines if line.strip()]


def _jsonl_documents(path: Path, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            yield titled(row.get("title"), row["text"])
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ContextError(
                f"{path}, line {number}: not a JSON object with a `text` ({error})."
            ) from error


def titled(title: str | None, text: str) -> str:
    """A document as models read it: title, a space, text; as mteb joins them."""
    return f"{title} {text}".strip() if title else text.strip()
