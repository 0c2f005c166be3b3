"""Texts in, vectors out: a model with its tokenizer.

    model = cde_core.load(path)
    context = model.read_context(documents)
    vectors = model.encode_documents(texts, context)
    query = model.encode_queries(questions, context)

Texts are sorted by length into batches of a bounded number of tokens and come back in their own
order; no embedding depends on the texts that it was computed with beyond float noise. Contexts that
were read before come from a cache where there is one. Whatever takes long also takes `progress`, a
function that is told how many more texts are done, such as the `update` of a progress bar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cde_core.errors import ConfigError, ContextError
from cde_core.model.biencoder import Biencoder
from cde_core.model.context import Context, digest_of
from cde_core.model.context_cache import ContextCache, ContextKey
from cde_core.model.contextual import ContextualEncoder, Prepared
from cde_core.model.fingerprint import (
    WeightsState,
    digest_of_reading,
    digest_of_weights,
    weights_state,
)
from cde_core.text import Purpose, prefix_for, token_budget_batches
from cde_core.tokens import TextReader, pad

DOCUMENT = Purpose("Retrieval", "document")
QUERY = Purpose("Retrieval", "query")
TEXTS_AT_ONCE = 16_384
"""Texts tokenised and sorted together, which bounds memory on large corpora."""

TOKENS_AT_ONCE = {"cpu": 2_048, "cuda": 131_072}
"""Tokens per batch, padding included; on CPUs, small batches that stay in the cache are faster."""

Progress = Callable[[int], object]
"""Told how many more texts are done."""


class TextEncoder:
    """A model with its tokenizer."""

    def __init__(
        self,
        model: Biencoder | ContextualEncoder,
        reader: TextReader,
        *,
        name: str = "",
        cache: Path | None = None,
    ) -> None:
        """Put a model and its tokenizer together.

        Args:
            model: Set to evaluation here.
            reader: Its tokenizer.
            name: For messages.
            cache: Contexts are kept in `contexts` below this folder; None: nowhere.
        """
        self.model = model.eval()
        self.reader = reader
        self.name = name
        self._cache = None if cache is None else ContextCache(cache / "contexts")
        self._prepared: tuple[Context, WeightsState, Prepared] | None = None
        self._fingerprint: tuple[WeightsState, str] | None = None
        self._reading: str | None = None

    @property
    def context_size(self) -> int:
        """Documents that the model reads before it embeds; 0: it takes no context."""
        contextual = isinstance(self.model, ContextualEncoder)
        return self.model.config.context_documents if contextual else 0  # type: ignore[union-attr]

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return self.model.backbone.config.hidden

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.backbone.words.weight.device

    @property
    def fingerprint(self) -> str:
        """Digest of the first stage's weights as bfloat16, so that precision does not change it."""
        model = self.model
        stage = model.first_stage if isinstance(model, ContextualEncoder) else model
        state = weights_state(stage)
        if self._fingerprint is None or self._fingerprint[0] != state:
            self._fingerprint = (state, digest_of_weights(stage))
        return self._fingerprint[1]

    def prefix(self, purpose: Purpose | None) -> str:
        """What a text with this purpose carries in front, for this model."""
        return prefix_for(purpose) if purpose and self.model.config.prefixes else ""

    def read_context(
        self,
        documents: Sequence[str],
        *,
        purpose: Purpose = DOCUMENT,
        source: str = "documents",
        allow_more: bool = False,
        keep: bool = True,
        progress: Progress | None = None,
    ) -> Context:
        """Read a sample of a corpus, or remember what reading it gave.

        Args:
            documents: As many as `context_size`, or fewer.
            purpose: What the task's documents are for; decides their prefix.
            source: Where they came from, for the record.
            allow_more: Accept more documents than the model was made for.
            keep: Remember it, where there is a cache; of no use for what is read only once.
            progress: Told how many more documents are read.

        Raises:
            ConfigError: If `documents` is one text and no list.
            ContextError: If the model takes no context, or there are no or too many documents.
        """
        _refuse_one_text("documents", documents)
        if not isinstance(self.model, ContextualEncoder):
            raise ContextError(f"{self.name or 'This model'} embeds without context; leave it out.")
        if not documents:
            raise ContextError("The context has no documents; use Context.null() for none.")
        if len(documents) > self.context_size and not allow_more:
            raise ContextError(
                f"The context has {len(documents)} documents, but the model was made for "
                f"{self.context_size}; read fewer, or pass allow_more=True."
            )
        prefix, digest = self.prefix(purpose), digest_of(documents)
        if keep and self._cache is not None:
            vectors = self._remembered(self._cache, self.model, documents, digest, prefix, progress)
        else:
            vectors = self._run_first_stage(self.model, documents, prefix, progress)
        return Context(
            vectors=vectors,
            source=source,
            documents=len(documents),
            digest=digest,
            prefix=prefix,
            fingerprint=self.fingerprint,
        )

    def _remembered(
        self,
        cache: ContextCache,
        model: ContextualEncoder,
        documents: Sequence[str],
        digest: str,
        prefix: str,
        progress: Progress | None,
    ) -> Tensor:
        """What the first stage gives, from the cache if it can be."""
        if self._reading is None:
            self._reading = digest_of_reading(model.config, self.reader)
        key = ContextKey(
            fingerprint=self.fingerprint,
            reading=self._reading,
            documents=digest,
            prefix=prefix,
            dtype=str(model.backbone.words.weight.dtype).removeprefix("torch."),
            tokens_per_document=model.config.tokens_per_document,
        )
        ran = False

        def run() -> Tensor:
            nonlocal ran
            ran = True
            return self._run_first_stage(model, documents, prefix, progress)

        vectors = cache.read(key, run)
        if progress and not ran:
            progress(len(documents))
        return vectors

    def _run_first_stage(
        self,
        model: ContextualEncoder,
        documents: Sequence[str],
        prefix: str,
        progress: Progress | None,
    ) -> Tensor:
        tokens, hidden = model.config.tokens_per_document, model.config.first.hidden
        vectors = self._in_batches(
            documents,
            prefix,
            lambda ids, mask: model.read_context(ids, mask).view(-1, tokens, hidden),
            pad_alike=tokens > 1 and model.config.spans_of == "padded",
            progress=progress,
        )
        return torch.from_numpy(vectors).flatten(0, 1)

    def encode_documents(
        self,
        texts: Sequence[str],
        context: Context | None = None,
        *,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Unit vectors (n, d) of documents to be found."""
        return self.encode(texts, purpose=DOCUMENT, context=context, progress=progress)

    def encode_queries(
        self,
        texts: Sequence[str],
        context: Context | None = None,
        *,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Unit vectors (n, d) of queries."""
        return self.encode(texts, purpose=QUERY, context=context, progress=progress)

    def encode(
        self,
        texts: Sequence[str],
        *,
        purpose: Purpose | None = None,
        context: Context | None = None,
        normalise: bool = True,
        tokens_at_once: int | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Vectors (n, d) of texts, in their order.

        Args:
            texts: Any number.
            purpose: What they are for; decides their prefix. None: no prefix.
            context: What the model knows of the corpus; None: no context.
            normalise: Scale every vector to length 1.
            tokens_at_once: Tokens per batch, padding included; bounds memory and changes nothing.
            progress: Told how many more texts are done.

        Raises:
            ConfigError: If `texts` is one text and no list.
            ContextError: If the context is not this model's, or is absent and cannot be.
        """
        _refuse_one_text("texts", texts)
        vectors = self._in_batches(
            texts,
            self.prefix(purpose),
            self._step(context),
            tokens_at_once=tokens_at_once,
            progress=progress,
        )
        if not normalise:
            return vectors
        return F.normalize(torch.from_numpy(vectors), dim=-1).numpy()

    def _step(self, context: Context | None) -> Callable[[Tensor, Tensor | None], Tensor]:
        """The model as a function of token ids and mask alone."""
        model = self.model
        if isinstance(model, ContextualEncoder):
            prepared = self._prepare(model, context or Context.null())
            return lambda ids, mask: model(ids, mask, prepared)
        if context and not context.is_null:
            raise ContextError(f"{self.name or 'This model'} embeds without context; leave it out.")
        return model

    @torch.inference_mode()
    def _prepare(self, model: ContextualEncoder, context: Context) -> Prepared:
        """The context in the model's form; the last one is kept, since calls come in runs."""
        weights = weights_state(model)
        if self._prepared and _same(self._prepared[0], context) and self._prepared[1] == weights:
            return self._prepared[2]
        if context.fingerprint not in ("", self.fingerprint):
            raise ContextError(
                f"The context ({context.source}) was read by another model; read the documents "
                f"again with {self.name or 'this one'}."
            )
        vectors = None if context.is_null else context.vectors
        # Whether there are too many was settled when they were read.
        prepared = model.prepare(vectors, allow_more=True)
        self._prepared = (context, weights, prepared)
        return prepared

    @torch.inference_mode()
    def _in_batches(
        self,
        texts: Sequence[str],
        prefix: str,
        step: Callable[[Tensor, Tensor | None], Tensor],
        *,
        tokens_at_once: int | None = None,
        pad_alike: bool = False,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        budget = tokens_at_once or TOKENS_AT_ONCE.get(self.device.type, 32_768)
        parts = [torch.zeros(0, self.dimension)]
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            tokens = self.reader.read(texts[start : start + TEXTS_AT_ONCE], prefix)
            lengths = [len(one) for one in tokens]
            longest = max(lengths) if pad_alike else 0
            lengths = [max(length, longest) for length in lengths]
            order: list[int] = []
            found = []
            for batch in token_budget_batches(lengths, budget, extra=self.rows_in_front):
                ids, mask = pad([tokens[i] for i in batch], to=longest)
                mask = None if mask is None else mask.to(self.device)
                found.append(step(ids.to(self.device), mask).float().cpu())
                order += batch
                if progress:
                    progress(len(batch))
            vectors = torch.cat(found)
            parts.append(torch.empty_like(vectors).index_copy_(0, torch.tensor(order), vectors))
        return torch.cat(parts[1:] or parts).numpy()

    @property
    def rows_in_front(self) -> int:
        """Rows that travel with every text through every layer."""
        if not isinstance(self.model, ContextualEncoder):
            return 0
        config = self.model.config
        if config.context_attention == "prefix":
            return 0
        return config.context_rows + config.soft_prompts


def _refuse_one_text(name: str, texts: Sequence[str]) -> None:
    """A text is a sequence of texts too, of its letters, and nobody wants a vector of each."""
    if isinstance(texts, str):
        raise ConfigError(f"{name} is one text, {texts[:40]!r}; give a list, such as [text].")


def _same(one: Context, other: Context) -> bool:
    return one.vectors is other.vectors or (one.is_null and other.is_null)
