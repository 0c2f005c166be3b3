"""Contextual transformers: our checkpoints, and the published CDE models.

    documents ──▶ first stage ──▶ Context ──▶ second stage ──▶ vectors

The model itself is `cde_core`; here it meets the harness's protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cde_core
from cde_core.errors import ModelError
from cde_core.model.context import Context
from cde_core.model.encode import TextEncoder
from cde_core.model.hub import folder_of
from cde_core.text import Purpose
from cde_eval.encoders.biencoder import folder_revision
from cde_eval.encoders.local_name import local_name
from cde_eval.encoders.protocol import Similarity
from cde_eval.encoders.registry import LoadOptions
from cde_eval.progress import progress_bar
from cde_eval.vectors import Vectors

MINI = "cde-eval/cde-mini"
MINI_FOLDER = Path(__file__).parents[1] / "cde_mini"


class Cde:
    """A `cde_core` model behind the `Encoder` protocol."""

    similarity: Similarity = "cosine"
    task_types: frozenset[str] | None = None

    def __init__(self, model: TextEncoder, name: str, revision: str, dtype: str) -> None:
        self.model = model
        self.name = name
        self.revision = revision
        self.context_size: int | None = model.context_size
        self.settings = {} if dtype == "float32" else {"dtype": dtype}

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> Context:
        """First-stage vectors of the documents, with the prefix that their purpose asks for.

        More documents than the model was trained with are read too: whoever gives a size above
        the model's own has chosen it, and the record says it.
        """
        with progress_bar(len(documents), "context") as done:
            return self.model.read_context(
                documents, purpose=purpose, allow_more=True, progress=done
            )

    def read_once(self, documents: Sequence[str], *, purpose: Purpose) -> Context:
        """The same, and nothing is kept of it: a context that will not be asked for again."""
        return self.model.read_context(documents, purpose=purpose, allow_more=True, keep=False)

    def encode(
        self, texts: Sequence[str], *, purpose: Purpose, context: Context | None = None
    ) -> Vectors:
        """Vectors of texts, shape (n, dim), not normalised, as the published models give them."""
        with progress_bar(len(texts)) as done:
            return self.model.encode(
                texts, purpose=purpose, context=context, normalise=False, progress=done
            )

    def space(self, purpose: Purpose, context: Context | None = None) -> dict[str, str]:
        """The prefix, and the documents of the context in their order."""
        about = {"prompt": self.model.prefix(purpose)}
        if context is not None and not context.is_null:
            about |= {"context": context.digest, "context_prompt": context.prefix}
        return about


def load(argument: str, options: LoadOptions) -> Cde:
    """A contextual transformer: a checkpoint of ours, or a published CDE model.

    Raises:
        ModelError: If there is no such model, or it is not one that `cde_core` reproduces.
    """
    if not argument:
        raise ModelError("`cde` needs a model: cde:FOLDER or cde:org/name.")
    name = local_name(Path(argument)) if Path(argument).is_dir() else argument
    return _load(folder_of(argument), name, options)


def load_mini(argument: str, options: LoadOptions) -> Cde:
    """cde-mini, the small contextual model that comes with this package.

    Raises:
        ModelError: If all-MiniLM-L6-v2, over which it is kept, is not at hand.
    """
    return _load(MINI_FOLDER, MINI, options)


def _load(folder: Path, name: str, options: LoadOptions) -> Cde:
    model = cde_core.load(folder, device=options.device, dtype=options.dtype)
    return Cde(model, name, folder_revision(folder), options.dtype)
