"""What filter, mine and score all ask for, each thing once.

    SOURCE …  --only-domains …    ──▶ WhichPairs ──▶ Pairs
    --query-prefix … --device …   ──▶ HowRead    ──▶ Judge, Teacher

A command takes one as a parameter marked `FLAT`: its fields are then options among the command's
own, and the text below each is their help.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from cde_core.errors import ConfigError
from cde_core.settings.bounds import at_least, known_device

if TYPE_CHECKING:
    from cde_core.train.data.pairs import Pairs

Sources = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE ...")]
FLAT = tyro.conf.arg(name="")


@dataclass(frozen=True, kw_only=True)
class WhichPairs:
    """What is read of the sources."""

    only_domains: tuple[str, ...] = ()
    """Domains to keep; none named: all."""

    exclude_domains: tuple[str, ...] = ()
    """Domains to leave out."""

    skip_bad_rows: bool = False
    """Count rows that cannot be read, instead of stopping at the first."""

    most_per_source: int = 0
    """Pairs read of every source, from its beginning; 0: all."""

    def of(self, sources: Sequence[str]) -> Pairs:
        """Read them, or find what was read before.

        Raises:
            ConfigError: If there is no source, or none of a name.
            DataError: If one cannot be read, or nothing is left.
        """
        from cde_core.recipe import DataConfig
        from cde_core.train.preparation import read_pairs

        if not sources:
            raise ConfigError("Name what to read: files, folders, hub:ORG/NAME or docs.")
        asked = DataConfig(
            sources=tuple(sources),
            only_domains=self.only_domains,
            exclude_domains=self.exclude_domains,
            skip_bad_rows=self.skip_bad_rows,
            most_per_source=self.most_per_source,
        )
        return read_pairs(asked, say)


@dataclass(frozen=True, kw_only=True)
class HowRead:
    """How a model reads texts, and where."""

    query_prefix: str | None = None
    """What queries carry in front, such as "query: "; by default the model's own."""

    document_prefix: str | None = None
    """What documents carry in front, such as "passage: "."""

    max_length: int = 0
    """Tokens that a model reads of a text; 0: as many as it can."""

    seed: int = 0
    """Of whatever is drawn, such as the documents that a contextual model reads first."""

    device: str = "auto"
    """Where a model computes: auto, cpu, cuda."""

    def __post_init__(self) -> None:
        at_least("--max-length", self.max_length, 0)
        at_least("--seed", self.seed, 0)
        known_device(self.device)

    @property
    def prefixes(self) -> tuple[str, str] | None:
        """Both prefixes, or None where neither is given."""
        if self.query_prefix is None and self.document_prefix is None:
            return None
        return self.query_prefix or "", self.document_prefix or ""

    def settings(self) -> dict[str, Any]:
        """The same for `judge_named` and `teacher_named`; asked for before pairs are read.

        Raises:
            ConfigError: If the device cannot be used here.
        """
        from cde_core.train.distributed import usable_device

        usable_device(self.device)
        return {
            "device": None if self.device == "auto" else self.device,
            "prefixes": self.prefixes,
            "max_length": self.max_length,
            "seed": self.seed,
        }

    def said(self) -> dict[str, Any]:
        """What of it decides a result, for the record."""
        return {"prefixes": self.prefixes, "max_length": self.max_length, "seed": self.seed}


WHICH_PAIRS, HOW_READ = WhichPairs(), HowRead()
"""What is done where nothing else is said."""


def say(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr, flush=True)
