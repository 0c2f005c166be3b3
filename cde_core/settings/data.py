"""`data`: where pairs of queries and documents come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from cde_core.errors import ConfigError
from cde_core.settings.bounds import STRICT, at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Where pairs of queries and documents come from."""

    __pydantic_config__ = STRICT

    sources: tuple[str, ...] = ()
    """Files (.jsonl, .jsonl.gz, .parquet), folders of such files, BEIR folders (their train split),
    hub:ORG/NAME, or the name of a built-in source, such as docs or docs:numpy,scipy."""

    only_domains: tuple[str, ...] = ()
    """Domains to keep; none named: all."""

    exclude_domains: tuple[str, ...] = ()
    """Domains to leave out."""

    skip_bad_rows: bool = False
    """Count rows that cannot be read, instead of stopping at the first."""

    most_per_source: int = 0
    """Pairs read of every source, from its beginning; 0: all."""

    twice: bool = False
    """Pair every text, query or document, with itself, and leave out all else: unsupervised SimCSE,
    where model.dropout makes the two differ."""

    prefixes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Prefix of queries and prefix of documents, by domain; "*" is every other domain. By default
    search_query: and search_document:, where the model has prefixes."""

    def __post_init__(self) -> None:
        at_least("data.most_per_source", self.most_per_source, 0)
        both = sorted({*self.only_domains} & {*self.exclude_domains})
        if both:
            raise ConfigError(
                f"data.only_domains and data.exclude_domains both name {both[0]!r}; "
                "take it out of one of them."
            )
