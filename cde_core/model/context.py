"""What a contextual encoder knows of a corpus, as a value that can be saved.

    documents ──▶ first stage ──▶ Context ──▶ second stage
                                     │
                                a file, with where it came from

The draw of the documents is part of every measurement, so the vectors never travel without their
source, the digest of the texts, the prefix they carried and the model that read them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cde_core.errors import ContextError

FORMAT = "cde_core context 1"


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The first stage's output for a sample of a corpus."""

    vectors: Tensor
    """(J·T, hidden) float32, on the CPU, not normalised; (0, 0) for no context."""

    source: str
    """Where the documents came from: "corpus:NFCorpus/test seed 42", "file:…", "none"."""

    documents: int
    """How many were read (J)."""

    digest: str = ""
    """SHA-256 of the documents' texts, in order."""

    prefix: str = ""
    """What every document carried in front."""

    fingerprint: str = ""
    """Of the first stage that read them."""

    @classmethod
    def null(cls) -> Context:
        """No context: the model's learned stand-in takes its place."""
        return cls(vectors=torch.zeros(0, 0), source="none", documents=0)

    @property
    def is_null(self) -> bool:
        """Whether this is no context."""
        return self.documents == 0

    def save(self, path: str | Path) -> Path:
        """Write to `path`, whole or not at all, and return it."""
        path = Path(path)
        about = {
            field.name: str(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name != "vectors"
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
        vectors = self.vectors.contiguous()
        save_file({"vectors": vectors}, unfinished, metadata={"format": FORMAT, **about})
        return unfinished.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Context:
        """Read what `save` wrote.

        Raises:
            ContextError: If there is no such file, or it holds no context.
        """
        try:
            with safe_open(path, "pt") as file:
                about = dict(file.metadata() or {})
                if about.pop("format", None) != FORMAT:
                    raise ContextError(f"{path} is not a saved context.")
                vectors = file.get_tensor("vectors")
        except FileNotFoundError:
            raise ContextError(f"There is no context file {path}.") from None
        except (SafetensorError, OSError) as error:
            raise ContextError(f"{path} is not a saved context: {error}.") from None
        return cls(vectors=vectors, documents=int(about.pop("documents")), **about)


def digest_of(texts: Iterable[str]) -> str:
    """SHA-256 of texts in order; their lengths are hashed too, so that none runs into the next."""
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()
