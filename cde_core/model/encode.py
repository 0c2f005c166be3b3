"""Texts in, vectors out: a model with its tokenizer.

    model = cde_core.load(path)
    context = model.read_context(documents)
    vectors = model.encode_documents(texts, context)
    query = model.encode_queries(questions, context)

Texts are sorted by length into batches of a bounded number of tokens and come back in their own
order; no embedding depends on the texts that it was computed with beyond float noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cde_core.errors import ContextError
from cde_core.model.biencoder import Biencoder
from cde_core.model.context import Context, digest_of
from cde_core.model.contextual import ContextualEncoder, Prepared
from cde_core.text import Purpose, prefix_for, token_budget_batches
from cde_core.tokens import TextReader, pad

DOCUMENT = Purpose("Retrieval", "document")
QUERY = Purpose("Retrieval", "query")
TEXTS_AT_ONCE = 16_384
"""Texts tokenised and sorted together, which bounds memory on large corpora."""

TOKENS_AT_ONCE = {"cpu": 2_048, "cuda": 131_072}
"""Tokens per batch, padding included; on CPUs, small batches that stay in the cache are faster."""


class TextEncoder:
    """A trained model with its tokenizer; its weights are taken to stay as they are."""

    def __init__(
        self, model: Biencoder | ContextualEncoder, reader: TextReader, *, name: str = ""
    ) -> None:
        self.model = model.eval()
        self.reader = reader
        self.name = name
        self._prepared: tuple[Context, Prepared] | None = None

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

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the first stage's weights as bfloat16, so that precision does not change it."""
        stage = self.model.first_stage if isinstance(self.model, ContextualEncoder) else self.model
        digest = hashlib.sha256()
        for name, tensor in stage.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.to(torch.bfloat16).view(torch.int16).cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

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
    ) -> Context:
        """Read a sample of a corpus.

        Args:
            documents: As many as `context_size`, or fewer.
            purpose: What the task's documents are for; decides their prefix.
            source: Where they came from, for the record.
            allow_more: Accept more documents than the model was made for.

        Raises:
            ContextError: If the model takes no context, or there are no or too many documents.
        """
        if not isinstance(self.model, ContextualEncoder):
            raise ContextError(f"{self.name or 'This model'} embeds without context; leave it out.")
        if not documents:
            raise ContextError("The context has no documents; use Context.null() for none.")
        if len(documents) > self.context_size and not allow_more:
            raise ContextError(
                f"The context has {len(documents)} documents, but the model was made for "
                f"{self.context_size}; read fewer, or pass allow_more=True."
            )
        prefix, model = self.prefix(purpose), self.model
        tokens = model.config.tokens_per_document
        vectors = self._in_batches(
            documents,
            prefix,
            lambda ids, mask: model.read_context(ids, mask).view(len(ids), tokens, -1),
        )
        return Context(
            vectors=torch.from_numpy(vectors).flatten(0, 1),
            source=source,
            documents=len(documents),
            digest=digest_of(documents),
            prefix=prefix,
            fingerprint=self.fingerprint,
        )

    def encode_documents(
        self, texts: Sequence[str], context: Context | None = None
    ) -> NDArray[np.float32]:
        """Unit vectors (n, d) of documents to be found."""
        return self.encode(texts, purpose=DOCUMENT, context=context)

    def encode_queries(
        self, texts: Sequence[str], context: Context | None = None
    ) -> NDArray[np.float32]:
        """Unit vectors (n, d) of queries."""
        return self.encode(texts, purpose=QUERY, context=context)

    def encode(
        self,
        texts: Sequence[str],
        *,
        purpose: Purpose | None = None,
        context: Context | None = None,
        normalise: bool = True,
        tokens_at_once: int | None = None,
    ) -> NDArray[np.float32]:
        """Vectors (n, d) of texts, in their order.

        Args:
            texts: Any number.
            purpose: What they are for; decides their prefix. None: no prefix.
            context: What the model knows of the corpus; None: no context.
            normalise: Scale every vector to length 1.
            tokens_at_once: Tokens per batch, padding included; bounds memory and changes nothing.

        Raises:
            ContextError: If the context is not this model's, or is absent and cannot be.
        """
        vectors = self._in_batches(texts, self.prefix(purpose), self._step(context), tokens_at_once)
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
        if self._prepared and self._prepared[0] is context:
            return self._prepared[1]
        if context.fingerprint not in ("", self.fingerprint):
            raise ContextError(
                f"The context ({context.source}) was read by another model; read the documents "
                f"again with {self.name or 'this one'}."
            )
        vectors = None if context.is_null else context.vectors
        # Whether there are too many was settled when they were read.
        prepared = model.prepare(vectors, allow_more=True)
        self._prepared = (context, prepared)
        return prepared

    @torch.inference_mode()
    def _in_batches(
        self,
        texts: Sequence[str],
        prefix: str,
        step: Callable[[Tensor, Tensor | None], Tensor],
        tokens_at_once: int | None = None,
    ) -> NDArray[np.float32]:
        budget = tokens_at_once or TOKENS_AT_ONCE.get(self.device.type, 32_768)
        parts = [torch.zeros(0, self.dimension)]
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            tokens = self.reader.read(texts[start : start + TEXTS_AT_ONCE], prefix)
            lengths = [len(one) for one in tokens]
            order: list[int] = []
            found = []
            for batch in token_budget_batches(lengths, budget, extra=self._rows_in_front()):
                ids, mask = pad([tokens[i] for i in batch])
                mask = None if mask is None else mask.to(self.device)
                found.append(step(ids.to(self.device), mask).float().cpu())
                order += batch
            vectors = torch.cat(found)
            parts.append(torch.empty_like(vectors).index_copy_(0, torch.tensor(order), vectors))
        return torch.cat(parts[1:] or parts).numpy()

    def _rows_in_front(self) -> int:
        """Rows that travel with every text through every layer."""
        if not isinstance(self.model, ContextualEncoder):
            return 0
        config = self.model.config
        if config.context_attention == "prefix":
            return 0
        return config.context_rows + config.soft_prompts
