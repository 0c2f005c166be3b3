"""Our encoders, as the beir package sees them: with a context.

    GenericDataLoader ──▶ corpus ──▶ BeirModel reads a sample of it
                                         └─▶ DenseRetrievalExactSearch ──▶ EvaluateRetrieval

beir encodes the queries before any document and hands over the corpus a chunk at a time, longest
documents first. So the corpus is given beforehand, as its loader returns it, and the context is
drawn by the rules of the protocol `paper`, as for the same task in mteb.

    corpus, queries, qrels = GenericDataLoader(folder).load("test")
    model = BeirModel(encoder, corpus, task_name="SciFact")
    search = DenseRetrievalExactSearch(model)
    evaluation = EvaluateRetrieval(search, score_function=model.score_function)
    results = evaluation.retrieve(corpus, queries)

beir itself needs a title of every document ("" will do), and more than one query.

Interface: Thakur et al. (2021), https://github.com/beir-cellar/beir, 2.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from cde_core.errors import TaskError
from cde_core.text import Purpose, Role
from cde_eval.contexts import draw_sample, titled
from cde_eval.embed import each_once
from cde_eval.encoders.protocol import Encoder, Ranker
from cde_eval.protocols import PAPER
from cde_eval.vectors import Vectors, unit_length

Document = Mapping[str, str | None]
"""`text`, and `title` where there is one."""


class BeirModel:
    """An `Encoder` with `encode_queries` and `encode_corpus`; it has read its context.

    Args:
        encoder: The model.
        corpus: What its context is drawn from: a corpus as beir's loaders return it, or texts;
            None leaves out context.
        size: Documents to draw; None for as many as the encoder reads by itself.
        seed: Seed of the draw.
        task_name: Name of the task. Tasks draw independently, and some have prefixes of their own.
        split: Split of the task; it is mixed into the seed.

    Raises:
        TaskError: If the encoder has no vectors, or cannot do retrieval.
        ContextError: If the corpus is empty.
    """

    def __init__(
        self,
        encoder: Encoder,
        corpus: Mapping[str, Document] | Sequence[str] | None = None,
        *,
        size: int | None = None,
        seed: int = 42,
        task_name: str = "",
        split: str = "test",
    ) -> None:
        _refuse_if_unable(encoder)
        self.encoder = encoder
        self.context_record: dict[str, Any] | None = None
        """What was read: how many documents, out of how many, their seed and hash."""
        self._task_name = task_name
        self._context: Any = None
        if corpus is not None and encoder.context_size != 0:
            sample = draw_sample(
                _pool(corpus),
                size or encoder.context_size,
                source=f"corpus:{task_name}/{split}",
                key="\0".join((task_name, split, "default")),
                seed=seed,
                protocol=PAPER,
            )
            purpose = PAPER.context_purpose(self._purpose("document"))
            self._context = encoder.read_context(sample.documents, purpose=purpose)
            self.context_record = sample.record()

    @property
    def score_function(self) -> str:
        """How beir is to compare the vectors: "cos_sim" or "dot"."""
        return "cos_sim" if self.encoder.similarity == "cosine" else "dot"

    def encode_queries(
        self,
        queries: Sequence[str],
        batch_size: int = 0,
        convert_to_tensor: bool = False,
        **kwargs: Any,
    ) -> Vectors | torch.Tensor:
        """Vectors of queries, shape (n, dim).

        Args:
            queries: Texts without prefix.
            batch_size: Not heeded: encoders make batches of texts of similar length themselves.
            convert_to_tensor: Return a tensor.
            kwargs: Whatever else beir passes on, such as `show_progress_bar`; not heeded.
        """
        return self._embed(list(queries), "query", convert_to_tensor)

    def encode_corpus(
        self,
        corpus: Sequence[Document] | Mapping[str, Sequence[str | None]],
        batch_size: int = 0,
        convert_to_tensor: bool = False,
        **kwargs: Any,
    ) -> Vectors | torch.Tensor:
        """Vectors of documents, shape (n, dim).

        Args:
            corpus: Documents, or a list each of their texts and titles.
            batch_size: Not heeded, like `kwargs`; see `encode_queries`.
            convert_to_tensor: Return a tensor.
            kwargs: Whatever else beir passes on.
        """
        if isinstance(corpus, Mapping):
            texts = corpus["text"]
            titles = corpus.get("title") or [None] * len(texts)
            documents = [
                titled(title, text or "") for title, text in zip(titles, texts, strict=True)
            ]
        else:
            documents = [_text(document) for document in corpus]
        return self._embed(documents, "document", convert_to_tensor)

    def _embed(self, texts: list[str], role: Role, as_tensor: bool) -> Vectors | torch.Tensor:
        vectors = each_once(
            texts,
            lambda new: self.encoder.encode(
                new, purpose=self._purpose(role), context=self._context
            ),
        )
        vectors = vectors.astype(np.float32, copy=False)
        scaled = self.encoder.context_size != 0 and PAPER.scales("Retrieval")
        if scaled or self.encoder.similarity == "cosine":
            vectors = unit_length(vectors)
        return torch.tensor(vectors) if as_tensor else vectors

    def _purpose(self, role: Role) -> Purpose:
        return Purpose("Retrieval", role, self._task_name)


def _refuse_if_unable(encoder: Encoder) -> None:
    able = encoder.task_types
    if able is not None and "Retrieval" not in able:
        raise TaskError(f"{encoder.name} cannot do retrieval; it does {', '.join(sorted(able))}.")
    if isinstance(encoder, Ranker):
        raise TaskError(
            f"{encoder.name} ranks documents without vectors, and beir's dense search compares "
            "vectors; evaluate it with cde-eval mteb --data FOLDER."
        )


def _pool(corpus: Mapping[str, Document] | Sequence[str]) -> list[str]:
    if isinstance(corpus, Mapping):
        return [_text(document) for document in corpus.values()]
    return list(corpus)


def _text(document: Document) -> str:
    return titled(document.get("title"), document.get("text") or "")
