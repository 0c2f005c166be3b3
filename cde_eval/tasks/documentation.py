"""Pair the summary of each documented object with the rest of its documentation.

    installed packages ──▶ read_docstrings ──▶ split_docstring ──▶ Documentation ──▶ cache

Ten packages that a data scientist has installed anyway make ten corpora on neighbouring subjects,
with a question and an answer for each object. So there is a retrieval task with real shifts of
domain that needs no download and no labels. These texts are public, so a pretrained model may have
read them; compare models on them with that in mind. The same versions of the packages give the
same bytes, named by `revision`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache as memoise
from functools import cached_property
from pathlib import Path

from tqdm import tqdm

from cde_core.errors import ConfigError, TaskError, did_you_mean
from cde_eval.tasks.docstring_text import split_docstring
from cde_eval.tasks.docstrings import PYTHON, installed_version, read_docstrings

BUILDER_VERSION = 1
"""Raise this whenever the same packages would give other pairs, so that old caches are left."""

DOMAINS = (
    *("numpy", "scipy", "pandas", "torch", "matplotlib"),
    *("sklearn", "transformers", "sympy", "networkx", PYTHON),
)
"""The packages read, in this order."""

MOST_PAIRS_PER_DOMAIN = 1_000


@dataclass(frozen=True, slots=True)
class DocPair:
    """A summary sentence, and the documentation that it summarises."""

    id: str
    """Module and name, such as "numpy.linalg._linalg.norm"; unlike that of any other pair."""

    domain: str
    """The package, or "python" for the standard library."""

    module: str
    """Dotted module that the docstring stands in."""

    name: str
    """Qualified name within the module; the module's own last part for a module docstring."""

    query: str
    """The summary sentence."""

    document: str
    """The rest of the docstring, without the object's name and the summary."""

    @property
    def subpackage(self) -> str:
        """What a user would call the area, such as "scipy.stats", "numpy" or "asyncio"."""
        if self.domain == PYTHON:
            return re.sub(r"^_(?:py)?", "", self.module.split(".")[0])
        public = self.module.partition("._")[0]
        return ".".join(public.split(".")[:2])


@dataclass(frozen=True)
class Documentation:
    """All pairs, and what they were read from."""

    pairs: tuple[DocPair, ...]
    """Grouped by domain; in a domain by sha256, so that its first n pairs are a fair sample."""

    versions: Mapping[str, str]
    """Version of each package that was read, and of the Python that read it."""

    @cached_property
    def revision(self) -> str:
        """The sha256 of all pairs in order: two equal revisions are the same task."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(json.dumps(asdict(pair), sort_keys=True).encode() + b"\n")
        return digest.hexdigest()

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that have pairs, in order."""
        return tuple(dict.fromkeys(pair.domain for pair in self.pairs))

    def in_domain(self, domain: str) -> tuple[DocPair, ...]:
        """The pairs of one domain.

        Raises:
            TaskError: If it has none, which means that the package is not installed.
        """
        pairs = tuple(pair for pair in self.pairs if pair.domain == domain)
        if not pairs:
            raise TaskError(
                f"There is no documentation of {domain!r} here.{did_you_mean(domain, self.domains)}"
                f" Install that package, or choose among {', '.join(self.domains) or 'none'}."
            )
        return pairs


def load_documentation(
    cache: Path | None = None, *, domains: Sequence[str] = DOMAINS
) -> Documentation:
    """Read the documentation pairs from the cache, or build and cache them.

    Args:
        cache: Folder of the cache file; by default `documentation/` in the folder that
            the environment variable CDE_EVAL_CACHE names, or else in ~/.cache/cde-eval.
        domains: Packages to read, in order; those that are not installed are left out.

    Raises:
        ConfigError: If the cache folder cannot be written.
    """
    if cache is None:
        root = os.environ.get("CDE_EVAL_CACHE") or "~/.cache/cde-eval"
        cache = Path(root).expanduser() / "documentation"
    return _load(cache, tuple(domains))


def build_documentation(
    domains: Sequence[str] = DOMAINS, *, most_pairs: int = MOST_PAIRS_PER_DOMAIN
) -> Documentation:
    """Read the pairs from the installed packages, at most `most_pairs` from each.

    Which ones is decided by the sha256 of their text. No two ask the same sentence, or have
    documents that differ in nothing but numbers and signs: one could not tell which is meant.
    The earlier domain keeps a text that two of them have.
    """
    pairs: list[DocPair] = []
    seen: set[str] = set()
    versions = _versions(domains)
    installed = [domain for domain in domains if domain in versions]
    for domain in tqdm(installed, desc="reading docstrings", unit="package", disable=None):
        candidates = sorted(_candidates(domain), key=lambda pair: (_sha256(pair), pair.id))
        distinct = [pair for pair in candidates if _is_new(pair, seen)]
        pairs.extend(distinct[:most_pairs])
    return Documentation(tuple(pairs), versions)


def _versions(domains: Sequence[str]) -> dict[str, str]:
    found = {package: installed_version(package) for package in (*domains, PYTHON)}
    return {package: version for package, version in found.items() if version}


def _candidates(domain: str) -> Iterator[DocPair]:
    uses: Counter[str] = Counter()
    for module, name, text in read_docstrings(domain):
        place = f"{module}.{name}" if name else module
        uses[place] += 1  # a property and its setter share a name
        identity = place if uses[place] == 1 else f"{place}#{uses[place]}"
        if split := split_docstring(text, place):
            yield DocPair(identity, domain, module, name or module.rpartition(".")[2], *split)


def _is_new(pair: DocPair, seen: set[str]) -> bool:
    asked = re.findall(r"\w+", pair.query.lower())
    answered = re.findall(r"[^\W\d_]+", pair.document.lower())
    keys = {"query " + " ".join(asked), "document " + " ".join(answered)}
    if keys & seen:
        return False
    seen |= keys
    return True


def _sha256(pair: DocPair) -> str:
    return hashlib.sha256(f"{pair.query}\n{pair.document}".encode()).hexdigest()


@memoise
def _load(folder: Path, domains: tuple[str, ...]) -> Documentation:
    key = json.dumps([BUILDER_VERSION, MOST_PAIRS_PER_DOMAIN, _versions(domains), domains])
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    documentation = _read(path)
    if documentation is None:
        documentation = build_documentation(domains)
        _write(documentation, path)
    return documentation


def _read(path: Path) -> Documentation | None:
    """Read a cache file; None if there is none, or if it does not hold what it says it holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        pairs = tuple(DocPair(**pair) for pair in content["pairs"])
        documentation = Documentation(pairs, content["versions"])
        return documentation if documentation.revision == content["revision"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(documentation: Documentation, path: Path) -> None:
    content = {
        "revision": documentation.revision,
        "versions": dict(documentation.versions),
        "pairs": [asdict(pair) for pair in documentation.pairs],
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False
        ) as file:
            json.dump(content, file)
        Path(file.name).replace(path)  # whole or not at all, even if two processes build at once
    except OSError as error:
        raise ConfigError(
            f"The documentation cache cannot be written to {path.parent} ({error.strerror}); "
            "set CDE_EVAL_CACHE to a folder that can."
        ) from error
