"""Our encoders, as mteb sees them: with a context for every task.

    mteb.evaluate ──▶ index(corpus)   ─▶ lend a context from the task ─▶ search(queries) ─▶ ranks
                  └─▶ encode(texts)   ─▶ lend a context from the task ─▶ vectors

mteb hands `encode` a task's name and never its data, and encodes queries before documents, so an
encoder that only has `encode` cannot know the corpus in time. Therefore the task objects are bound
by name (`task_contexts`), and the retrieval family goes through `index` and `search`, where the
corpus comes first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from mteb.abstasks import AbsTask
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType
from torch.utils.data import DataLoader

from cde_core.errors import ConfigError, TaskError
from cde_core.text import Purpose, Role
from cde_eval.contexts import ContextPolicy
from cde_eval.embed import each_once
from cde_eval.encoders.kept import corpus_vectors, engine_of, unkept
from cde_eval.encoders.protocol import Encoder, Ranker
from cde_eval.own_contexts import rank_in_own_contexts, reader_once
from cde_eval.protocols import PAPER, Protocol
from cde_eval.ranking import Ranking, named
from cde_eval.search import best_of_candidates
from cde_eval.task_contexts import Foreign, TaskContexts
from cde_eval.tasks.corpus_texts import corpus_texts
from cde_eval.vectors import Rows, RowsOfVectors, UnitRows, Vectors, unit_length


@dataclass(slots=True)
class Work:
    """What an evaluation cost."""

    texts: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Indexed:
    ids: list[str]
    texts: Sequence[str]


class MtebEncoder(AbsEncoder):
    """An `Encoder` with a context policy, behind mteb's encoder and search protocols.

    One instance evaluates under one policy, one draw and one protocol; the draw's number and the
    policy are part of its `ModelMeta`, so mteb's result cache cannot mistake one for another.

    Args:
        encoder: The model.
        policy: Whose documents it reads; None leaves out context altogether.
        draw: Number of the draw, from 0.
        protocol: How tasks lend documents.
        foreign: The documents of a policy that reads elsewhere than in the task itself.
        rerank_as_search: Give reranking tasks the prefixes of search tasks.
        device: Where vectors are searched.
    """

    def __init__(
        self,
        encoder: Encoder,
        policy: ContextPolicy | None = None,
        *,
        draw: int = 0,
        protocol: Protocol = PAPER,
        foreign: Foreign | None = None,
        rerank_as_search: bool = False,
        device: str = "cpu",
    ) -> None:
        policy = policy or ContextPolicy("none")
        self.encoder = encoder
        self.contexts = TaskContexts(encoder, policy, protocol, policy.seed + draw, foreign)
        self.work = Work()
        self.unfinished: Path | None = None
        """Where rankings are kept meanwhile, if every query has a context of its own."""
        self._protocol = protocol
        self._rerank_as_search = rerank_as_search
        self._device = device
        self._indexed: _Indexed | None = None
        self.mteb_model_meta: ModelMeta = model_meta(encoder, self._choices())

    def bind(self, tasks: Iterable[AbsTask]) -> None:
        """Let these tasks lend their documents; outside retrieval there is no other way to them."""
        self.contexts.bind(tasks)

    def encode(
        self,
        inputs: DataLoader[Any],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> Vectors:
        """Vectors of a loader's texts, shape (n, dim), float32, in the context their task lends."""
        texts = [text for batch in inputs for text in batch["text"]]
        role: Role = "text" if prompt_type is None else _role(prompt_type)
        context = self._context(task_metadata, hf_split, hf_subset)
        return self._embed(self.encoder, texts, self._purpose(task_metadata, role), context)

    def index(
        self,
        corpus: Dataset,
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: Mapping[str, Any],
        num_proc: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the corpus, and read the context before any query is encoded."""
        ids = list(corpus.select_columns(["id"])[:]["id"])
        self._indexed = _Indexed(ids, corpus_texts(corpus))
        if not self.contexts.differ_by_query:
            self._context(task_metadata, hf_split, hf_subset, corpus=self._indexed.texts)

    def search(
        self,
        queries: Dataset,
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        encode_kwargs: Mapping[str, Any],
        top_ranked: Mapping[str, list[str]] | None = None,
        num_proc: int | None = None,
        **kwargs: Any,
    ) -> Mapping[str, dict[str, float]]:
        """Rank the corpus, or each query's candidates, for each query."""
        if self._indexed is None:
            raise RuntimeError("mteb calls index() before search()")
        corpus = self._indexed
        query_ids, texts = list(queries["id"]), _query_texts(queries, task_metadata)
        rows = None if top_ranked is None else _candidate_rows(query_ids, corpus.ids, top_ranked)
        place = (task_metadata, hf_split, hf_subset)
        if self.contexts.differ_by_query and rows is not None:
            ranking = self._rank_in_own_contexts(texts, corpus.texts, rows, place)
        else:
            context = self._context(*place, corpus=corpus.texts)
            ranking = self._rank(
                self.encoder, texts, corpus.texts, task_metadata, context, rows, top_k
            )
        self._indexed = None
        return named(ranking, query_ids, corpus.ids)

    def _rank(
        self,
        encoder: Encoder,
        queries: list[str],
        corpus: Sequence[str],
        metadata: TaskMetadata,
        context: Any,
        candidates: Sequence[Rows] | None,
        top_k: int,
    ) -> Ranking:
        """Rank a corpus, or each query's candidates, in one context for all queries."""
        if isinstance(encoder, Ranker):
            started = time.perf_counter()
            ranking = encoder.rank(
                queries, corpus, top_k=top_k, candidates=candidates, context=context
            )
            self._count(len(queries) + len(corpus), started)
            return ranking
        left = self._embed(encoder, queries, self._purpose(metadata, "query"), context)
        if encoder.similarity == "cosine":
            left = unit_length(left)
        of_documents = self._purpose(metadata, "document")
        if candidates is None:
            right = self._embed_corpus(encoder, corpus, of_documents, context)
            return engine_of(encoder).search(left, right, top_k, device=self._device)
        # Only documents that are a candidate of some query are embedded at all.
        used = np.unique(np.concatenate(candidates))
        documents = corpus if len(used) == len(corpus) else [corpus[int(row)] for row in used]
        right = self._embed_corpus(encoder, documents, of_documents, context)
        return best_of_candidates(left, right, used, candidates, top_k)

    def _rank_in_own_contexts(
        self,
        queries: list[str],
        corpus: Sequence[str],
        candidates: Sequence[Rows],
        place: tuple[TaskMetadata, str, str],
    ) -> Ranking:
        """Rank each query's candidates in a context of their own."""
        metadata = place[0]
        encoder = unkept(self.encoder)  # no vector serves twice
        purpose = self.contexts.of_each_query(*place, self._purpose(metadata, "document"))

        def rank(query: str, texts: list[str], context: Any) -> Ranking:
            return self._rank(encoder, [query], texts, metadata, context, None, len(texts))

        return rank_in_own_contexts(
            queries,
            corpus,
            candidates,
            read=reader_once(encoder, purpose),
            rank=rank,
            size=self.contexts.size,
            unfinished=self.unfinished,
        )

    def _embed_corpus(
        self, encoder: Encoder, texts: Sequence[str], purpose: Purpose, context: Any
    ) -> RowsOfVectors:
        """Vectors of documents to be searched, in memory only if they fit easily."""
        self._refuse_other_types(purpose.task_type, purpose.task_name)
        started = time.perf_counter()
        vectors = corpus_vectors(encoder, texts, purpose, context)
        self._count(len(texts), started)
        if encoder.similarity != "cosine" and not self._scales(encoder, purpose):
            return vectors
        return unit_length(vectors) if isinstance(vectors, np.ndarray) else UnitRows(vectors)

    def _embed(self, encoder: Encoder, texts: list[str], purpose: Purpose, context: Any) -> Vectors:
        self._refuse_other_types(purpose.task_type, purpose.task_name)
        started = time.perf_counter()
        vectors = each_once(
            texts, lambda new: encoder.encode(new, purpose=purpose, context=context)
        )
        self._count(len(texts), started)
        vectors = vectors.astype(np.float32, copy=False)
        return unit_length(vectors) if self._scales(encoder, purpose) else vectors

    def _scales(self, encoder: Encoder, purpose: Purpose) -> bool:
        return encoder.context_size != 0 and self._protocol.scales(purpose.task_type)

    def _count(self, texts: int, started: float) -> None:
        self.work.texts += texts
        self.work.seconds += time.perf_counter() - started

    def _purpose(self, metadata: TaskMetadata, role: Role) -> Purpose:
        task_type = str(metadata.type)
        if self._rerank_as_search and task_type.endswith("Reranking"):
            task_type = "Retrieval"
        return Purpose(task_type, role, metadata.name)

    def _refuse_other_types(self, task_type: str, name: str) -> None:
        able = self.encoder.task_types
        if able is not None and task_type not in able:
            raise TaskError(
                f"{self.encoder.name} cannot do {name} ({task_type}); it does {', '.join(able)}."
            )

    def _context(
        self,
        metadata: TaskMetadata,
        split: str,
        subset: str,
        corpus: Sequence[str] | None = None,
    ) -> Any:
        documents = self._purpose(metadata, "document")
        return self.contexts.of(metadata, split, subset, documents, corpus=corpus)

    def _choices(self) -> dict[str, str]:
        """Every choice that changes scores, as mteb's `experiment_kwargs`.

        Raises:
            ConfigError: If the encoder calls a setting of its own as one of these is called.
        """
        if taken := sorted(self.encoder.settings.keys() & OUR_CHOICES):
            raise ConfigError(
                f"The encoder {self.encoder.name} has settings called {', '.join(taken)}, under "
                "which results are filed by what is read; call them something else."
            )
        prefix = {"reranking_prefix": "search"} if self._rerank_as_search else {}
        return {**self.encoder.settings, **self.contexts.choices(), **prefix}


OUR_CHOICES = {"context", "protocol", "size", "seed", "documents", "reranking_prefix"}
"""What an encoder may not call its own settings, since the one would hide the other."""

_SCORING = {"cosine": ScoringFunction.COSINE, "dot": ScoringFunction.DOT_PRODUCT}


def model_meta(encoder: Encoder, experiment: Mapping[str, str]) -> ModelMeta:
    """What mteb files results under: a name, a revision and every choice that changes scores."""
    return ModelMeta(
        loader=None,
        name=encoder.name,
        revision=encoder.revision,
        release_date=None,
        languages=None,
        n_parameters=None,
        memory_usage_mb=None,
        max_tokens=None,
        embed_dim=None,
        license=None,
        open_weights=None,
        public_training_code=None,
        public_training_data=None,
        framework=["PyTorch"],
        similarity_fn_name=_SCORING[encoder.similarity],
        use_instructions=None,
        training_datasets=None,
        experiment_kwargs=dict(experiment) or None,
    )


def _role(prompt_type: PromptType) -> Role:
    return "query" if prompt_type is PromptType.query else "document"


def _query_texts(queries: Dataset, metadata: TaskMetadata) -> list[str]:
    """Queries as mteb would hand them over: instructions appended, conversations flattened."""
    from mteb._create_dataloaders import create_dataloader

    loader = create_dataloader(
        queries, task_metadata=metadata, prompt_type=PromptType.query, batch_size=256
    )
    return [text for batch in loader for text in batch["text"]]


def _candidate_rows(
    query_ids: Sequence[str], document_ids: Sequence[str], top_ranked: Mapping[str, Sequence[str]]
) -> list[Rows]:
    row_of = {identity: row for row, identity in enumerate(document_ids)}
    return [
        np.array([row_of[document] for document in top_ranked.get(query, ())], dtype=np.int64)
        for query in query_ids
    ]
