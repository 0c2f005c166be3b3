"""Which runs a comparison is about.

    "corpus", "minilm", "bm25@random", a results folder ──find_side──▶ Side: records by task

A word on the command line must mean one run: one model in one context, on any number of tasks.
Where it could mean several, they are named, and how to tell them apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cde_core.errors import ConfigError, DataError, did_you_mean
from cde_eval.results import RunRecord, records_by_path

Draws = Mapping[Path, RunRecord]
"""The records of one run on one task, a record per draw of the context, by their files."""

FOLDERS = "compare results folders that hold one each"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs that are compared."""

    letter: str
    """"A" or "B", as messages and tables call it."""

    asked: str
    """As the user named it: a folder, a context, a model, or MODEL@CONTEXT."""

    tasks: Mapping[str, Draws]

    @property
    def run(self) -> str:
        """Model and context, as the score tables name runs."""
        record = next(iter(next(iter(self.tasks.values())).values()))
        return f"{record.model} · {record.policy}"

    @property
    def draws(self) -> int:
        """Draws of the context; the most where tasks differ."""
        return max(map(len, self.tasks.values()))


def find_side(
    letter: str,
    asked: str,
    results: Path,
    *,
    model: str | None = None,
    context: str | None = None,
    size: int | None = None,
) -> Side:
    """The one run that a word on the command line means.

    Args:
        letter: "A" or "B".
        asked: A results folder, or the context, model or MODEL@CONTEXT of records in `results`.
        results: Results folder, where `asked` is none itself.
        model: Only this model, where `asked` does not name one.
        context: Only this context, where `asked` does not name one; a model that reads nothing
            is not asked.
        size: Only contexts of so many documents; a model that reads nothing is not asked.

    Raises:
        ConfigError: If it means no run, or several.
        DataError: If there are no results at all.
    """
    is_folder = (Path(asked) / "records").is_dir()
    folder = Path(asked) if is_folder else results
    records = records_by_path(folder)
    if not records:
        raise DataError(f"{folder} holds no results; run `cde-eval mteb --output {folder}` first.")
    names_model = names_context = False
    if not is_folder:
        everything = list(records.values())
        records = {path: r for path, r in records.items() if asked in _names(r)}
        if not records:
            raise _unknown(letter, asked, folder, everything)
        names_model = all(asked != r.policy for r in records.values())
        names_context = all(asked != r.model for r in records.values())
    if model is not None and not names_model:
        records = _only(letter, asked, records, "model", model)
    free = all(record.context_size == 0 for record in records.values())
    if context is not None and not names_context and not free:
        records = _only(letter, asked, records, "policy", context)
    if size is not None and not all(record.context_size == 0 for record in records.values()):
        records = _only(letter, asked, records, "context_size", size)
    _refuse_several(letter, asked, list(records.values()))
    tasks: dict[str, dict[Path, RunRecord]] = {}
    for path, record in records.items():
        tasks.setdefault(record.task, {})[path] = record
    return Side(letter, asked, tasks)


def candidates_in_words(lists: Mapping[str, Any]) -> str:
    """What was rescored."""
    if not lists:
        return "none (the whole corpus is searched)"
    titles = "with" if lists.get("titles") else "without"
    digest = str(lists.get("sha256"))[:12]
    return f"depth {lists.get('depth')} of sha256 {digest} {titles} titles"


def _names(record: RunRecord) -> tuple[str, ...]:
    return record.policy, record.model, f"{record.model}@{record.policy}"


def _unknown(letter: str, asked: str, folder: Path, records: Iterable[RunRecord]) -> ConfigError:
    known = sorted({name for record in records for name in _names(record)[:2]})
    return ConfigError(
        f"{letter} is {asked!r}, which is neither a results folder nor a context or model with "
        f"results in {folder}.{did_you_mean(asked, known)} There are {', '.join(known)}, and "
        "MODEL@CONTEXT of them."
    )


def _only(
    letter: str, asked: str, records: Draws, field: str, wanted: str | int
) -> dict[Path, RunRecord]:
    kept = {path: record for path, record in records.items() if getattr(record, field) == wanted}
    if not kept:
        there = sorted({str(getattr(record, field)) for record in records.values()})
        hint = did_you_mean(wanted, there) if isinstance(wanted, str) else ""
        word = {"policy": "context", "context_size": "size"}.get(field, field)
        raise ConfigError(
            f"{letter} ({asked!r}) has no results of the {word} {wanted!r}.{hint} "
            f"It has {', '.join(there)}."
        )
    return kept


DISTINCTIONS: tuple[tuple[str, Callable[[RunRecord], str], str], ...] = (
    ("models", lambda r: r.model, "say which with --model, or write MODEL@CONTEXT"),
    ("contexts", lambda r: r.policy, "say which with --context, or write MODEL@CONTEXT"),
    ("revisions of its model", lambda r: r.model_revision, FOLDERS),
    ("settings", lambda r: json.dumps(r.settings, sort_keys=True), FOLDERS),
    (
        "sizes of context",
        lambda r: "all" if r.context_size is None else str(r.context_size),
        "say which with --size",
    ),
    ("protocols", lambda r: r.protocol, FOLDERS),
    ("lists of candidates", lambda r: candidates_in_words(r.candidates), FOLDERS),
)
"""What makes two records those of two runs, and how one of them is named."""


def _refuse_several(letter: str, asked: str, records: Sequence[RunRecord]) -> None:
    for what, value, remedy in DISTINCTIONS:
        values = sorted(set(map(value, records)))
        if len(values) > 1:
            raise ConfigError(
                f"{letter} ({asked!r}) could be several {what}: {', '.join(values)}; {remedy}."
            )
