"""What is in the cache folder.

    folder ──▶ entries: kind, what it is, size, last use ──▶ matching ──▶ a list, or pruning

Everything here can be made again, so deleting costs time and never results. An entry is what is
deleted as one: a space of vectors, a context, the pairs of some sources. It is known by its name
and by what its file says of itself; whatever else lies in the folder is not ours and stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa
from safetensors import SafetensorError, safe_open

from cde_eval.vector_store import LOCK

Kind = Literal["vectors", "contexts", "corpora", "documentation", "train", "leftovers"]
KINDS: tuple[Kind, ...] = get_args(Kind)

DAY = 24 * 60 * 60
"""Seconds after which a half-written file is what a killed run left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What is deleted as one."""

    kind: Kind
    what: str
    """In words."""
    model: str = ""
    """Model and revision of vectors, the first stage's fingerprint of contexts; else ""."""
    files: tuple[Path, ...]
    """In the order in which they are deleted."""
    size: int
    """Bytes."""
    used: float
    """When it was last used, as far as files tell, in seconds since 1970: all but vectors, pairs,
    surrogate vectors, contexts and corpora only tell when they were written."""
    folders: tuple[Path, ...] = ()
    """Deleted at the end, in this order, if nothing else is in there."""
    lock: Path | None = None
    """Locked by who uses it."""
    again: Callable[[], Entry | None] = field(compare=False, repr=False)
    """The entry as it is now; None if it is gone."""


@dataclass(frozen=True, slots=True)
class _About:
    """What is found out of an entry by looking into it."""

    what: str
    files: Sequence[Path]
    model: str = ""
    folders: Sequence[Path] = ()
    lock: Path | None = None


def cached(folder: Path, now: float) -> Iterator[Entry]:
    """Everything of ours in the cache folder; vectors and texts are not read.

    Args:
        folder: The cache folder, which need not be there.
        now: Seconds since 1970; half-written files are leftovers a day later.
    """
    for kind, below, name, look in _LOOKS:
        for path in _inside(folder / below):
            if re.fullmatch(name, path.name) and (entry := _entry(kind, look, path)):
                yield entry
    spaces = [(space, _LEFT_IN_SPACE) for space in _inside(folder / "vectors")]
    for place, name in [*spaces, *((folder / below, name) for below, name in _LEFTOVERS)]:
        for path in _inside(place):
            if re.fullmatch(name, path.name):
                entry = _entry("leftovers", _leftover, path)
                if entry and entry.used < now - DAY:
                    yield entry


def matching(
    entries: Iterable[Entry], *, kinds: Sequence[str] = (), model: str | None = None
) -> list[Entry]:
    """Entries of these kinds, or of all, whose model contains a text, in either case."""
    return [
        entry
        for entry in entries
        if (not kinds or entry.kind in kinds)
        and (model is None or (entry.model and model.lower() in entry.model.lower()))
    ]


def _inside(folder: Path) -> list[Path]:
    """What is in a folder; nothing where there is none, or none any more."""
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _entry(kind: Kind, look: Callable[[Path], _About | None], path: Path) -> Entry | None:
    """What is at a path; None if it is not ours, or gone."""
    try:
        about = look(path)
        if about is None:
            return None
        stats = [file.stat() for file in about.files]
        times = [stat.st_mtime for stat in stats] or [path.stat().st_mtime]
        if about.lock and kind != "vectors" and about.lock.exists():
            times.append(about.lock.stat().st_mtime)  # written to whenever the entry is asked for
    except (OSError, *_NOT_OURS):
        return None
    return Entry(
        kind=kind,
        what=about.what,
        model=about.model,
        files=tuple(about.files),
        size=sum(stat.st_size for stat in stats),
        used=max(times),
        folders=tuple(about.folders),
        lock=about.lock,
        again=partial(_entry, kind, look, path),
    )


def _space(path: Path) -> _About | None:
    about = json.loads((path / "space.json").read_text(encoding="utf-8"))
    if not about["format"].startswith("cde-eval vectors "):
        return None
    shards = [file for file in sorted(path.glob("*.npy")) if re.fullmatch(_HEX, file.stem)]
    headers = [header for header in map(_header, shards) if header]
    rows = sum(shape[0] for shape, _ in headers)
    width = headers[0][1]["vector"].shape[0] if headers else 0
    what = " · ".join([*_space_in_words(about), f"{rows:,} texts × {width}"])
    model = f"{about['model']}@{about['revision']}"
    return _About(what, [*shards, path / "space.json"], model, [path], path / LOCK)


def _space_in_words(about: dict[str, str]) -> Iterator[str]:
    yield f"{about['model']}@{about['revision'].removeprefix('sha256-')[:8]}"
    for name, value in json.loads(about["settings"]).items():
        yield f"{name} {_short(value)}"
    for name in dict.fromkeys(["side", "prompt", "context", *sorted(about)]):
        if about.get(name) and name not in ("model", "revision", "settings", "format"):
            yield f"{name.replace('_', ' ')} {_short(about[name])}"


def _short(value: object) -> str:
    """A digest by its beginning, a word as it is, and other texts between quotes."""
    text = str(value)
    if re.fullmatch(r"[0-9a-f]{16,}", text):
        return text[:8]
    cut = text if len(text) <= 40 else f"{text[:39]}…"
    return cut if re.fullmatch(r"[\w.-]+", cut) else repr(cut)


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and type of an array in a file; None where it is damaged."""
    with path.open("rb") as file, suppress(ValueError):
        return _read_header(file)
    return None


def _read_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    form = np.lib.format
    first = form.read_magic(file) == (1, 0)
    shape, _, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(file)
    return shape, dtype


def _context(path: Path) -> _About | None:
    with safe_open(path, "np") as file:
        about = file.metadata() or {}
        rows, width = file.get_slice("vectors").get_shape()
    if not about["format"].startswith("cde_core cached context "):
        return None
    documents = rows // int(about["tokens_per_document"])
    prefix = f" · prefix {_short(about['prefix'])}" if about["prefix"] else ""
    what = (
        f"model {about['fingerprint'][:8]}{prefix} · {about['dtype']} · "
        f"{documents:,} documents {about['documents'][:8]} × {width}"
    )
    return _About(what, [path], about["fingerprint"])


def _corpus(path: Path) -> _About | None:
    with pa.memory_map(str(path)) as file:
        stream = pa.ipc.open_stream(file)
        if stream.schema.names != ["id", "text", "title"]:
            return None
        try:
            count = f"{sum(batch.num_rows for batch in stream):,} documents"
        except (OSError, pa.ArrowInvalid):
            count = "damaged"
    what = f"corpus of the data {path.stem.removesuffix('-corpus')} · {count}"
    return _About(what, [path], lock=path.with_suffix(".lock"))


def _documentation(path: Path) -> _About | None:
    with path.open("rb") as file:  # the texts come after this
        head = file.read(16_384).decode("utf-8", "replace")
    found = re.match(r'\{"revision": "[0-9a-f]{64}", "versions": (\{[^{}]*\}), "pairs": \[', head)
    if not found:
        return None
    versions = [f"{name} {version}" for name, version in json.loads(found[1]).items()]
    return _About(f"docstrings of {_some(versions)}", [path])


def _pairs(path: Path) -> _About | None:
    about = json.loads((path / "pairs.json").read_text(encoding="utf-8"))
    if not about["format"].startswith("cde_core pairs "):
        return None
    counts, names = path.with_name(f"{path.name}.json"), about["domains"]
    with suppress(OSError, ValueError):
        names = [count["name"] for count in json.loads(counts.read_text(encoding="utf-8"))]
    what = f"pairs of {_some(names)} · {(path / 'domains.numbers').stat().st_size // 4:,}"
    beside = [counts] if counts.is_file() else []
    own = _pair_files(path)  # last pairs.json: a folder without it is refused, and not made again
    return _About(what, [*beside, *own], folders=[path], lock=path.with_name(f"{path.name}.lock"))


def _pair_files(folder: Path) -> list[Path]:
    """All files of a folder of pairs, pairs.json last."""
    files = [file for file in sorted(folder.iterdir()) if re.fullmatch(_PAIR_FILE, file.name)]
    return sorted(files, key=lambda file: file.name == "pairs.json")


def _surrogates(path: Path) -> _About | None:
    """Unfinished ones are no leftovers, however old: the run that was killed goes on there."""
    files = _grown(path, _SURROGATE_FILE)
    shapes = _shapes(files, "queries")
    if not shapes:
        return None
    size = "{:,} pairs × {}".format(*shapes[0]) if shapes[0] else "damaged"
    return _About(f"surrogate vectors · {size}{_state(files)}", files, lock=path / LOCK)


def _readings(path: Path) -> _About | None:
    """A folder for every domain of the pairs; those go with what is in them."""
    groups = [group for group in _inside(path) if re.fullmatch(r"group-\d{6}", group.name)]
    files = [file for group in groups for file in _grown(group, _READING_FILE)]
    shapes = _shapes(files, "queries|documents")
    if not shapes:
        return None
    whole = [shape for shape in shapes if shape]
    size = f"{sum(shape[0] for shape in whole):,} texts × {whole[0][1]}" if whole else "damaged"
    what = f"vectors for cde-train filter, mine and score · {size}{_state(files)}"
    return _About(what, files, folders=groups, lock=path / LOCK)


def _answers(what: str, size: str, path: Path) -> _About | None:
    """What was found of every pair, in a row of numbers each."""
    files = _grown(path, _ANSWERS_FILE)
    shapes = _shapes(files, "answers")
    if not shapes:
        return None
    found = size.format(*shapes[0]) if shapes[0] else "damaged"
    return _About(f"{what} · {found}{_state(files)}", files, lock=path / LOCK)


def _grown(folder: Path, names: str) -> list[Path]:
    """Files of arrays that are written from their start to their end."""
    return [file for file in _inside(folder) if re.fullmatch(names, file.name)]


def _shapes(files: Sequence[Path], names: str) -> list[tuple[int, ...] | None]:
    """Shapes of arrays by the beginning of their names; None where one is damaged."""
    arrays = (file for file in files if re.fullmatch(rf"({names})\.npy(\.unfinished)?", file.name))
    headers = map(_header, arrays)
    return [header[0] if header and len(header[0]) == 2 else None for header in headers]


def _state(files: Sequence[Path]) -> str:
    return " · unfinished" if any(file.suffix == ".unfinished" for file in files) else ""


def _tokens(path: Path) -> _About:
    what = f"tokens of texts for span corruption · {path.stat().st_size // 4:,}"
    said = path.with_suffix(".json")  # what was left out of them
    files = [said, path] if said.is_file() else [path]
    return _About(what, files, lock=path.with_suffix(".lock"))


def _clusters(path: Path) -> _About | None:
    with ZipFile(path) as held, held.open("of.npy") as of, held.open("domain_of.npy") as d:
        (pairs,), (clusters,) = _read_header(of)[0], _read_header(d)[0]
    return _About(f"clusters · {pairs:,} pairs in {clusters:,}", [path])


def _leftover(path: Path) -> _About:
    if path.is_dir():
        return _About(path.name, _pair_files(path), folders=[path])
    in_space = path.parent.parent.name == "vectors"
    return _About(path.name, [path], folders=[path.parent] if in_space else [])


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


_HEX = "[0-9a-f]{32}"
_NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, BadZipFile, SafetensorError)
"""What looking into a file raises that is not of the form its name promises."""
_PAIR_FILE = (
    r"(queries|documents|negatives)\.(utf8|offsets)|(domains|scores|labels)\.numbers"
    r"|teacher\.(documents|negatives)|negatives\.first|pairs\.json"
)
_GROWING = r"\.npy(\.unfinished|\.json|\.json\.new)?"
_SURROGATE_FILE = rf"(queries|documents|negatives){_GROWING}"
_READING_FILE, _ANSWERS_FILE = rf"(queries|documents){_GROWING}", rf"answers{_GROWING}"
_OF_FILTER = ("ranks of documents, of cde-train filter", "{:,} pairs")
_OF_MINE = ("hard negatives, of cde-train mine", "{:,} pairs × {}")
_OF_SCORE = ("a teacher's scores, of cde-train score", "{:,} documents and negatives")

_LOOKS: tuple[tuple[Kind, str, str, Callable[[Path], _About | None]], ...] = (
    ("vectors", "vectors", _HEX, _space),
    ("contexts", "contexts", rf"{_HEX}\.safetensors", _context),
    ("corpora", "corpora", r".+-corpus\.arrow", _corpus),
    ("documentation", "documentation", r"[0-9a-f]{16}\.json", _documentation),
    ("train", "train/pairs", _HEX, _pairs),
    ("train", "train/surrogates", _HEX, _surrogates),
    ("train", "train/clusters", rf"{_HEX}\.npz", _clusters),
    ("train", "train/tokens", rf"{_HEX}\.i32", _tokens),
    ("train", "train/readings", _HEX, _readings),
    ("train", "train/consistency", _HEX, partial(_answers, *_OF_FILTER)),
    ("train", "train/negatives", _HEX, partial(_answers, *_OF_MINE)),
    ("train", "train/scores", _HEX, partial(_answers, *_OF_SCORE)),
)
"""Kind, folder, names and what to look with; train/written holds locks alone, which stay."""

_LEFT_IN_SPACE = rf"\.{_HEX}\.part|\.space\.json\.[0-9a-f]{{8}}\.part"
_LEFTOVERS = (
    ("contexts", rf"{_HEX}\.safetensors\.{_HEX}\.unfinished"),
    ("corpora", r"\..+\.arrow\.[0-9a-f]{8}\.part"),
    ("documentation", r"tmp\w+\.part"),
    ("train/pairs", rf"{_HEX}\.{_HEX}\.unfinished(\.older\.unfinished)?"),
    ("train/pairs", rf"{_HEX}\.json\.unfinished|revisions\.json\.{_HEX}\.unfinished"),
    ("train/clusters", rf"{_HEX}\.npz\.{_HEX}\.unfinished"),
    ("train/tokens", rf"{_HEX}\.(i32|json)\.unfinished|revisions\.json\.{_HEX}\.unfinished"),
)
"""Folder and names of what a run writes before it has its name."""
