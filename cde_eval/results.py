"""Result files: what is written for every evaluation, and the tables read from them.

    OUTPUT/mteb/results/MODEL/REVISION[/experiments/CHOICES]/TASK.json    mteb's own result
    OUTPUT/records/MODEL/REVISION/CHOICES/TASK.queries.csv                scores of each query
    OUTPUT/records/MODEL/REVISION/CHOICES/TASK.json                       ours, written last

mteb's file is for mteb's tools; our record says what mteb has no place for: the context and its
draw, the protocol, what it cost, on which machine, with which versions. An evaluation is finished
when its record is there, so a killed run knows where to go on. Each is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from cde_core.errors import DataError

SCHEMA = 1
LONGEST_NAME = 150

TOKENS_PER_DOCUMENT = "tokens-per-document"
"""Setting of an encoder under which its number of vectors per context document was changed."""

PACKAGES = ("cde-eval", "mteb", "torch", "transformers", "sentence-transformers", "faiss-cpu",
            "bm25s", "numpy")  # fmt: skip


class Score(BaseModel):
    """All measures on one split and subset."""

    model_config = ConfigDict(frozen=True)

    split: str
    subset: str
    main: float | None
    """The measure that MTEB reports for this task, from 0 to 1; None where it is undefined."""
    measures: dict[str, Any]
    """Everything that mteb computed."""


class RunRecord(BaseModel):
    """One model on one task, under one policy and one draw."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    model: str
    """As it was asked for: "centred:minilm"."""
    model_name: str
    """As results are filed: organisation/model."""
    model_revision: str
    task: str
    task_type: str
    task_revision: str
    """Names the exact data: the hub's commit, or a hash of the content."""
    data_origin: str
    """"built-in", "mteb", or the folder that the data came from."""
    data_hash: str
    """Hash of the files that the data came from; "" where `task_revision` already is one."""
    parts: tuple[str, ...] = ()
    """"split/subset" of all that was asked for; a benchmark may ask for less than the whole task.
    Empty in records of older versions."""
    main_measure: str
    scores: tuple[Score, ...]
    policy: str
    """Whose documents were read: corpus, random, none, task:NAME, file:PATH."""
    protocol: str
    context_size: int | None
    """Documents asked for; 0 where none are read, None where all are."""
    draw: int
    """Number of the draw, from 0."""
    draws: int
    """Draws that were asked for."""
    contexts: dict[str, dict[str, Any]]
    """For "split/subset": where the documents came from, how many, their seed and hash."""
    settings: dict[str, str]
    """Choices of the encoder itself, such as precision."""
    candidates: dict[str, Any] = {}
    """Where lists of candidates were rescored: their retriever, its revision, depth, sha256, and
    whether documents had their titles."""
    seconds: float
    """Wall time of the evaluation, loading of data included."""
    texts: int
    """Texts that were to be embedded or ranked, repetitions included."""
    texts_per_second: float
    """Texts over the time the encoder took; vectors already at hand count as time saved."""
    device: str
    gflops: float
    """Speed of the machine just before, in a small float32 matrix product."""
    versions: dict[str, str]
    commit: str


def write_atomically(path: Path, content: str | Callable[[Path], object]) -> None:
    """Write a file whole or not at all, whoever else writes it at the same time.

    Args:
        path: The file; its folder is made if need be.
        content: Text, or a function that writes the file it is given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        if isinstance(content, str):
            part.write_text(content, encoding="utf-8")
        else:
            content(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())  # the name must not reach the disk before the bytes
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def record_path(
    output: Path, name: str, revision: str, choices: Mapping[str, str], task: str
) -> Path:
    """Where the record of an evaluation stands."""
    folder = output / "records" / file_name(name) / file_name(revision) / _safe_choices(choices)
    return folder / f"{task}.json"


def read_record(path: Path) -> RunRecord | None:
    """The record in a file; None if there is no file.

    Raises:
        DataError: If the file is not a record.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return RunRecord.model_validate_json(content)
    except ValidationError as error:
        raise DataError(
            f"{path} is not a run record ({error.error_count()} problems); delete it, and the run "
            "that made it will make it again."
        ) from error


def read_records(output: Path) -> list[RunRecord]:
    """Every record below a results folder, in a fixed order.

    Raises:
        DataError: If a file is not a record.
    """
    return list(records_by_path(output).values())


def records_by_path(output: Path) -> dict[Path, RunRecord]:
    """Every record below a results folder, by its file, in a fixed order.

    Raises:
        DataError: If a file is not a record.
    """
    paths = sorted((output / "records").rglob("*.json"))
    return {path: record for path in paths if (record := read_record(path)) is not None}


def query_scores_path(record: Path) -> Path:
    """Where the scores of each query stand, beside the record of their evaluation."""
    return record.with_suffix(".queries.csv")


def read_query_scores(record: Path) -> pd.DataFrame | None:
    """Scores of each query of an evaluation: split, subset, query and a column per measure.

    Args:
        record: The file of the evaluation's record.

    Returns:
        None where there are none: not a search task, or a record of an older version.
    """
    path = query_scores_path(record)
    if not path.is_file():
        return None
    texts = dict.fromkeys(("split", "subset", "query"), str)
    return pd.read_csv(path, dtype=texts, keep_default_na=False)


def tidy(records: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per record, split and subset, with what tells rows apart as columns."""
    rows = [
        {
            "protocol": record.protocol,
            "model": record.model,
            "revision": record.model_revision,
            "settings": json.dumps(record.settings, sort_keys=True),
            "policy": record.policy,
            "size": "all" if record.context_size is None else str(record.context_size),
            "draw": record.draw,
            "candidates": _candidates(record),
            "task": record.task,
            "type": record.task_type,
            "task_revision": record.task_revision,
            "split": score.split,
            "subset": score.subset,
            "measure": record.main_measure,
            "score": float("nan") if score.main is None else score.main,
        }
        for record in records
        for score in record.scores
    ]
    return pd.DataFrame(rows)


def _candidates(record: RunRecord) -> str:
    """In words, what was rescored; "" for a search of everything."""
    if not record.candidates:
        return ""
    titles = "" if record.candidates["titles"] else ", no titles"
    return f"top {record.candidates['depth']} of {record.candidates['retriever']}{titles}"


@cache
def installed_versions() -> dict[str, str]:
    """Versions of what scores depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str:
    """Commit of this source tree, with "+" where it has changes; "" outside a checkout."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    return f"{head}+" if head and _git(root, "status", "--porcelain") else head


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def file_name(text: str) -> str:
    """A name that every file system takes; one that could be another's too ends in a hash."""
    plain = _plain(text)
    clear = plain.replace("__", "/") == text and "~" not in plain and plain.strip(".")
    return plain if clear and len(plain) <= LONGEST_NAME else _with_hash(plain, text)


def _safe_choices(choices: Mapping[str, str]) -> str:
    pairs = sorted(choices.items())
    plain = "__".join(f"{_plain(key)}_{_plain(value)}" for key, value in pairs)
    parts = [part for pair in pairs for part in pair]
    clear = all(_plain(part) == part and not set("_~") & set(part) for part in parts)
    if clear and len(plain) <= LONGEST_NAME:
        return plain or "plain"
    return _with_hash(plain, json.dumps(pairs))


def _plain(text: str) -> str:
    kept = (c if c.isascii() and (c.isalnum() or c in "._-") else "~" for c in text)
    return "".join("__" if mark == "/" else c for c, mark in zip(kept, text, strict=True))


def _with_hash(plain: str, exact: str) -> str:
    digest = hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain[:LONGEST_NAME]}~{digest[:8]}"
