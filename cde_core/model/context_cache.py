"""Contexts that were read before, in memory and on disk.

    documents ──▶ ContextKey ──▶ ContextCache.read ──▶ vectors
                                        │
                     memory, else disk, else the first stage

The first stage costs as much as embedding its documents does, and the same context comes back: in
every run on a task, for every variant of a second stage. A key names everything that the vectors
depend on, so nothing ever has to be cleared by hand; a file that does not hold what its key and
checksum promise is remade. Files appear whole or not at all, and two processes that compute the
same one at once write the same bytes, so nobody waits for anybody.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cde_core.errors import CdeWarning

FORMAT = "cde_core cached context 1"
KEPT_IN_MEMORY = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextKey:
    """Everything that decides a context's vectors."""

    fingerprint: str
    """Digest of the first stage's weights."""

    reading: str
    """Digest of how it reads: its shape, its limits, its tokenizer."""

    documents: str
    """Digest of the documents' texts, in order."""

    prefix: str
    """What every document carried in front."""

    dtype: str
    """Precision of weights and arithmetic."""

    tokens_per_document: int
    """Vectors per document (T)."""

    @property
    def file_name(self) -> str:
        """Name of the file that holds the vectors."""
        everything = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return f"{hashlib.sha256(everything.encode()).hexdigest()[:32]}.safetensors"


class ContextCache:
    """Vectors by key; the latest few are kept in memory too."""

    def __init__(self, folder: Path) -> None:
        """Keep files in `folder`, which need not exist."""
        self.folder = folder
        self._latest: OrderedDict[ContextKey, Tensor] = OrderedDict()

    def read(self, key: ContextKey, compute: Callable[[], Tensor]) -> Tensor:
        """The vectors of `key`, which are computed and kept if they are not here yet."""
        vectors = self._latest.pop(key, None)
        if vectors is None:
            path = self.folder / key.file_name
            vectors = _load(path, key)
            if vectors is None:
                vectors = compute()
                _save(path, key, vectors)
        self._latest[key] = vectors
        if len(self._latest) > KEPT_IN_MEMORY:
            self._latest.popitem(last=False)
        return vectors


def cache_folder() -> Path:
    """Folder of everything cached: what CDE_EVAL_CACHE names, or else ~/.cache/cde-eval."""
    return Path(os.environ.get("CDE_EVAL_CACHE") or "~/.cache/cde-eval").expanduser()


def _load(path: Path, key: ContextKey) -> Tensor | None:
    """Vectors from a file; None if there is none, or it is not what it should be."""
    try:
        with safe_open(path, "pt") as file:
            vectors: Tensor = file.get_tensor("vectors")
            about = file.metadata()
    except (OSError, SafetensorError):
        return None
    if about != _description(key, vectors):
        return None
    with contextlib.suppress(OSError):
        path.touch()  # a file's time is when it was last of use
    return vectors


def _save(path: Path, key: ContextKey, vectors: Tensor) -> None:
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"vectors": vectors}, unfinished, metadata=_description(key, vectors))
        unfinished.replace(path)
    except (OSError, SafetensorError) as error:
        warnings.warn(
            f"A context could not be kept in {path.parent} ({error}), so the next run reads its "
            "documents again; set CDE_EVAL_CACHE to a folder that can be written.",
            CdeWarning,
            stacklevel=4,
        )
    finally:
        if path.parent.is_dir():
            unfinished.unlink(missing_ok=True)


def _description(key: ContextKey, vectors: Tensor) -> dict[str, str]:
    """What a file says of itself: its key, for people and for checks, and its checksum."""
    about = {name: str(value) for name, value in dataclasses.asdict(key).items()}
    checksum = hashlib.sha256(vectors.contiguous().numpy().tobytes()).hexdigest()
    return {"format": FORMAT, **about, "sha256": checksum}
