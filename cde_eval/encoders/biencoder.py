"""Any model that sentence-transformers loads, as a context-free encoder.

    texts ──▶ tokenise ──▶ batches of similar length ──▶ model ──▶ vectors, as the model scales them

Scores equal those of mteb's own sentence-transformers wrapper: the same prompts in the same order
of preference, the same truncation, the same modules. Only the batches differ: texts are grouped by
their length in tokens under a token budget, so that little padding is computed.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cde_core.errors import ModelError
from cde_core.text import Purpose, token_budget_batches
from cde_eval.encoders.local_name import local_name
from cde_eval.encoders.protocol import Similarity
from cde_eval.encoders.registry import LoadOptions
from cde_eval.progress import progress_bar
from cde_eval.vectors import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TOKENS_PER_BATCH = {"cpu": 2048}
"""Padded tokens per batch: small batches stay in a CPU's caches; GPUs want large ones."""
TOKENS_PER_BATCH_ELSEWHERE = 32_768

UNKNOWN_REVISION = "main"
"""A branch of a hub repository, whose files may change."""


class Biencoder:
    """A sentence-transformers model behind the `Encoder` protocol."""

    context_size: int | None = 0
    similarity: Similarity
    task_types: frozenset[str] | None = None

    def __init__(self, model: SentenceTransformer, name: str, revision: str) -> None:
        self.model = model
        self.name = name
        self.revision = revision
        self.similarity = _similarity(model)
        dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
        self.settings = {} if dtype == "float32" else {"dtype": dtype}

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> None:
        """Reads nothing: a biencoder embeds each text alone."""

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """Vectors of `texts`, shape (n, dim), float32, scaled as the model's own modules do it."""
        # Models with a route per side (asymmetric ones) are told which side this is.
        route = {} if purpose.role == "text" else {"task": purpose.role}
        return self._forward(list(texts), self.prompt_for(purpose), route)

    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str] | None:
        """Prompt and side; None for a model whose revision nobody can tell."""
        if self.revision == UNKNOWN_REVISION:
            return None
        return {"prompt": self.prompt_for(purpose) or "", "side": purpose.role}

    def prompt_for(self, purpose: Purpose) -> str | None:
        """Prompt that the model's own configuration has for this purpose.

        The order of preference is mteb's: task and role, task, type and role, type, role.
        """
        name, kind, role = purpose.task_name, purpose.task_type, purpose.role
        keys = [f"{name}-{role}", name, f"{kind}-{role}", kind, role]
        if role == "document":
            keys += ["passage", "corpus"]
        keys.append(self.model.default_prompt_name or "")
        prompts = self.model.prompts
        return next((prompts[key] for key in keys if prompts.get(key) is not None), None)

    def _forward(self, texts: list[str], prompt: str | None, route: Mapping[str, str]) -> Vectors:
        self.model.eval()
        device = self.model.device
        budget = TOKENS_PER_BATCH.get(device.type, TOKENS_PER_BATCH_ELSEWHERE)
        vectors: list[Any] = [None] * len(texts)
        batches = token_budget_batches(self._token_counts(texts, prompt), budget)
        with torch.inference_mode(), progress_bar(len(texts)) as done:
            for batch in batches:
                features = self.model.preprocess([texts[i] for i in batch], prompt=prompt, **route)
                features = {
                    key: value.to(device) if isinstance(value, torch.Tensor) else value
                    for key, value in features.items()
                }
                rows = self.model(features, **route)["sentence_embedding"].float().cpu().numpy()
                for i, row in zip(batch, rows, strict=True):
                    vectors[i] = row
                done(len(batch))
        return np.stack(vectors)

    def _token_counts(self, texts: list[str], prompt: str | None) -> list[int]:
        longest = self.model.max_seq_length or 512
        prompted = [(prompt or "") + text for text in texts]
        try:
            encoded = self.model.tokenizer(prompted, truncation=True, max_length=longest)
            return [len(ids) for ids in encoded["input_ids"]]
        except (AttributeError, TypeError):  # static word embeddings have no such tokenizer
            return [min(longest, 2 + len(text) // 4) for text in prompted]


def load(argument: str, options: LoadOptions) -> Biencoder:
    """Any folder or hub name that sentence-transformers loads: biencoder:NAME; context-free.

    Raises:
        ModelError: If there is no such model, or tensors are missing from its files.
    """
    if not argument:
        raise ModelError("`biencoder` needs a model: biencoder:FOLDER or biencoder:org/name.")
    folder = Path(argument)
    if folder.is_dir():
        name, revision = local_name(folder), folder_revision(folder)
    else:
        name, revision = argument, ""
    model = load_sentence_transformer(argument, options)
    return Biencoder(model, name, revision or _hub_revision(model))


def load_sentence_transformer(path: str, options: LoadOptions) -> SentenceTransformer:
    """Load a model, turning what goes wrong into one line.

    Raises:
        ModelError: If the model does not load, or loads with tensors made up at random.
    """
    from sentence_transformers import SentenceTransformer

    from cde_eval.baked_module import is_baked, load_baked

    dtype = getattr(torch, options.dtype)
    with _missing_tensors() as missing:
        try:
            if is_baked(path):
                model = load_baked(path, device=options.device)
            else:
                model = SentenceTransformer(
                    path, device=options.device, model_kwargs={"dtype": dtype}
                )
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise ModelError(
                f"The model {path!r} does not load: {reason} "
                "Give a folder that sentence-transformers can load, or a hub name that is "
                "downloaded or can be."
            ) from error
    if missing:
        raise ModelError(
            f"The model {path!r} lacks {len(missing)} tensor(s): {', '.join(missing[:3])}"
            f"{', …' if len(missing) > 3 else ''}. Restore its weights file."
        )
    return model.to(dtype)


def _similarity(model: SentenceTransformer) -> Similarity:
    name = model.similarity_fn_name
    if name == "cosine" or name == "dot":
        return name
    raise ModelError(
        f"The model compares vectors by {name!r}; only cosine and dot products can be searched."
    )


def folder_revision(folder: Path) -> str:
    """Hash of every file in a model folder: two models in two folders are never taken for one."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".md"):
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256-{digest.hexdigest()[:12]}"


def _hub_revision(model: SentenceTransformer) -> str:
    return getattr(model.model_card_data, "base_model_revision", None) or UNKNOWN_REVISION


@contextmanager
def _missing_tensors() -> Iterator[list[str]]:
    """Names of tensors that transformers reports missing and fills with random numbers.

    It only logs them. Poolers do not count: sentence embeddings do not use them, and many
    published checkpoints leave them out.
    """
    missing: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found = re.findall(r"^(\S+)\s*\|\s*MISSING", record.getMessage(), flags=re.MULTILINE)
            missing.extend(name for name in found if not name.startswith("pooler."))

    listener = Listener()
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(listener)
    try:
        yield missing
    finally:
        logger.removeHandler(listener)
