"""Everything that decides a training run: frozen, explained field by field, checked before work.

    data → clusters → batches (filter, loss) → model, optimiser → checkpoints, evaluation
                              all of it: Recipe

A recipe is a small YAML file (recipe.py reads it) and becomes one of these values; the same value
is saved beside what it produced. Every check names the field as it is written in the file and on
the command line, and offers the nearest value that works.

Defaults are those of the paper where it gives them.

Source: Morris and Rush (2024), sections 4 and 5, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cde_core.errors import ConfigError

STRICT = {"extra": "forbid"}  # how pydantic treats keys that no field has


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Where pairs of queries and documents come from."""

    __pydantic_config__ = STRICT

    sources: tuple[str, ...] = ()
    """Files (.jsonl, .jsonl.gz, .parquet), folders of such files, BEIR folders (their train split),
    hub:ORG/NAME, or the name of a built-in source, such as docs or docs:numpy,scipy."""

    only_domains: tuple[str, ...] = ()
    """Domains to keep; none named: all."""

    exclude_domains: tuple[str, ...] = ()
    """Domains to leave out."""

    skip_bad_rows: bool = False
    """Count rows that cannot be read, instead of stopping at the first."""

    most_per_source: int = 0
    """Pairs read of every source, from its beginning; 0: all."""

    twice: bool = False
    """Pair every text, query or document, with itself, and leave out all else: unsupervised SimCSE,
    where model.dropout makes the two differ."""

    prefixes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Prefix of queries and prefix of documents, by domain; "*" is every other domain. By default
    search_query: and search_document:, where the model has prefixes."""

    def __post_init__(self) -> None:
        _at_least("data.most_per_source", self.most_per_source, 0)
        both = sorted({*self.only_domains} & {*self.exclude_domains})
        if both:
            raise ConfigError(
                f"data.only_domains and data.exclude_domains both name {both[0]!r}; "
                "take it out of one of them."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchConfig:
    """A T5 of random weights, in place of the backbone's own."""

    __pydantic_config__ = STRICT

    hidden: int = 0
    """Width of its rows; 0: there is none, and the backbone's weights are taken."""

    layers: int = 4
    """Layers of its encoder, and of its decoder."""

    heads: int = 4
    """Attention heads per layer."""

    head_width: int = 32
    """Width of one head."""

    intermediate: int = 512
    """Width inside the feed-forward part."""

    activation: Literal["relu", "geglu", "swiglu"] = "geglu"
    """Of the feed-forward part; the last two are gated, as in T5 1.1."""

    words: bool = False
    """Whether it begins with the backbone's word vectors (their first principal components, where
    they are wider), so that a short training need not find out which words are alike."""

    def __post_init__(self) -> None:
        _at_least("model.scratch.hidden", self.hidden, 0)
        for name in ("layers", "heads", "head_width", "intermediate"):
            _at_least(f"model.scratch.{name}", getattr(self, name), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """What is trained, and from which weights it starts."""

    __pydantic_config__ = STRICT

    kind: Literal["biencoder", "contextual"] = "contextual"
    """One encoder, or two stages of which the first reads context. A biencoder ignores every field
    that is about the first stage or context."""

    backbone: str = "minilm"
    """Where weights come from (of the second stage): a folder, a hub name, or minilm."""

    first_stage: str = ""
    """The same for the first stage; empty: the same backbone, with weights of its own."""

    scratch: ScratchConfig = field(default_factory=ScratchConfig)
    """A T5 of random weights instead, which reads the backbone's tokens."""

    pooling: Literal["", "mean", "cls", "max", "lasttoken", "weightedmean", "decoder"] = ""
    """What makes a biencoder's vector out of its rows; decoder: the first row of T5's decoder.
    Empty: as the backbone does."""

    positions: Literal["", "rotary"] = ""
    """rotary: a T5's learned bias gives way to rotary positions, which are stretched to max_length
    (NTK-aware). Empty: as the backbone has them."""

    layers: int = 0
    """Layers kept of the backbone, from the bottom; 0: all."""

    first_layers: int = 0
    """The same for the first stage; 0: as many as of the second."""

    max_length: int = 64
    """Tokens that the model reads of a text, special tokens included."""

    train_length: int = 0
    """Tokens read of a text while training; fewer are faster, and what is learnt from them serves
    longer texts too. 0: as many as max_length."""

    characters_per_token: int = 4
    """A two-stage model reads so many characters of a text per token of its limit and no more, as
    published ones do; 0: texts are cut by tokens alone."""

    attention: Literal["prefix", "joint"] = "prefix"
    """prefix: context sees only itself, so it is computed once per corpus; joint: as published."""

    context_documents: int = 64
    """Documents that the model reads first (J), drawn from the batch."""

    tokens_per_document: int = 1
    """First-stage vectors per document (T)."""

    soft_prompts: int = 8
    """Learned rows between context and text."""

    context_bias: float = -4.0
    """First value of the bias on attention to the context (prefix attention only)."""

    residual_first_head: bool = True
    """Add the pooled vector to what the first stage's head makes of it."""

    residual_head: bool = True
    """Add the pooled vector to the output head, which then starts at zero."""

    pool_instruction: bool = True
    """Let the prefix's tokens count in the mean."""

    null_context: bool = True
    """Learn a vector that stands in for absent context."""

    rotary_on_context: bool = False
    """Let rotary positions tell context vectors apart."""

    prefixes: bool = True
    """Put the prefix of its purpose before every text."""

    sequence_dropout: float = 0.005
    """Probability that a context vector is replaced by the null vector; needs null_context."""

    whole_context_dropout: float = 0.0
    """Probability that a batch's whole context is replaced by it; needs null_context."""

    dropout: float = 0.0
    """Dropout inside the transformers, while training."""

    freeze: tuple[str, ...] = ()
    """Parameters that stay as they are, by the beginning of their names, such as
    first_stage.backbone."""

    def __post_init__(self) -> None:
        for name in ("layers", "first_layers"):
            _at_least(f"model.{name}", getattr(self, name), 0)
        for name in ("context_documents", "tokens_per_document", "soft_prompts"):
            _at_least(f"model.{name}", getattr(self, name), 1)
        _at_least("model.max_length", self.max_length, 4)
        _at_least("model.characters_per_token", self.characters_per_token, 0)
        if self.train_length:
            _at_least("model.train_length", self.train_length, 4)
        for name in ("sequence_dropout", "whole_context_dropout", "dropout"):
            _probability(f"model.{name}", getattr(self, name))
        if not self.backbone:
            raise ConfigError(
                "model.backbone is empty; name a folder, a model on the hub, or minilm."
            )
        if self.kind == "contextual" and self.pooling not in ("", "mean"):
            raise ConfigError(
                f"model.pooling is {self.pooling}, but a contextual model pools by mean alone; "
                "leave model.pooling out, or set model.kind to biencoder."
            )
        for name in ("sequence_dropout", "whole_context_dropout"):
            if self.kind == "contextual" and getattr(self, name) and not self.null_context:
                raise ConfigError(
                    f"model.{name} is {getattr(self, name)}, which needs model.null_context; "
                    "set the first to 0 or the second to true."
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """How pairs are grouped into pseudo-domains, of which batches are made."""

    __pydantic_config__ = STRICT

    size: int = 512
    """Pairs per cluster, on average; 0: no clusters, batches are random within their domain, or
    altogether where batches.across_domains is always."""

    surrogate: str = "minilm"
    """Encoder whose vectors are clustered: minilm, tfidf, a folder, a hub name, or encoder:NAME for
    any that `cde-eval encoders` lists."""

    surrogate_length: int = 0
    """Tokens that the surrogate reads of a text; 0: as many as it can, and at most 512."""

    dimensions: int = 0
    """Dimensions that vectors are reduced to first, by SVD; 0: none are lost."""

    points: Literal["paired", "free"] = "paired"
    """paired: a pair's two points share a cluster; free: each goes to its nearest centroid."""

    iterations: int = 100
    """Steps of k-means."""

    attempts: int = 3
    """Clusterings, of which the best is taken."""

    seed: int = 42
    """Of the first centroids."""

    def __post_init__(self) -> None:
        for name in ("size", "surrogate_length", "dimensions", "seed"):
            _at_least(f"clusters.{name}", getattr(self, name), 0)
        for name in ("iterations", "attempts"):
            _at_least(f"clusters.{name}", getattr(self, name), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How clusters become batches, and how a batch is computed."""

    __pydantic_config__ = STRICT

    size: int = 256
    """Pairs per step, over all devices."""

    packing: Literal["random", "nearest"] = "nearest"
    """Order in which clusters are strung together: by chance, or each followed by the nearest."""

    across_domains: Literal["never", "leftovers", "always"] = "never"
    """Whether a batch may mix domains; leftovers: only in the last batches, of what remains."""

    hard_negatives: int = 0
    """Negatives per query that are used of those in the data."""

    tokens_at_once: int = 4096
    """Tokens computed together, padding included; bounds memory, not the gradient."""

    gradient_cache: bool = True
    """false: keep the whole batch's graph; faster, and memory grows with the batch."""

    share_negatives: bool = True
    """Whether every device's documents are negatives of every other's queries."""

    def __post_init__(self) -> None:
        _at_least("batches.size", self.size, 2)
        _at_least("batches.hard_negatives", self.hard_negatives, 0)
        _at_least("batches.tokens_at_once", self.tokens_at_once, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterConfig:
    """Which documents of a batch do not count as negatives, since they may be answers."""

    __pydantic_config__ = STRICT

    surrogate: str = ""
    """Encoder that judges; as clusters.surrogate; clusters: that very one; empty: nobody does."""

    surrogate_length: int = 0
    """Tokens that it reads of a text, where it is not the clusters' own; as there."""

    margin: float = 0.0
    """A document leaves where it scores at least the answer's score plus this (ε)."""

    threshold: float | None = None
    """A document leaves where it scores at least this, whatever the answer scores."""

    when: Literal["before", "batch"] = "before"
    """before: texts are embedded once, before training; batch: with every batch."""

    duplicates: bool = True
    """A document with the answer's own text never counts as a negative."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.margin):
            raise ConfigError(f"filter.margin is {self.margin}; it must be a number, such as 0.")
        if self.threshold is not None and self.margin:
            raise ConfigError(
                "filter.margin and filter.threshold exclude each other; set filter.margin to 0, or "
                "leave filter.threshold out."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class NegativesConfig:
    """Hard negatives that the model under training finds itself, again and again (ANCE).

    They replace those of the data; batches.hard_negatives says how many of them a step uses.
    """

    __pydantic_config__ = STRICT

    every_epochs: int = 0
    """Epochs after which they are found again; 0: those of the data stay."""

    at_start: bool = True
    """Whether the model that training starts from finds the first; false: those are the data's."""

    per_query: int = 9
    """How many are kept of each pair."""

    depth: int = 200
    """Documents of the pair's domain that are looked at, the highest-ranked."""

    choose: Literal["highest", "drawn"] = "highest"
    """Of those that are no answers, the highest-ranked, or some by chance, as in ANCE."""

    margin: float | None = None
    """A document leaves where it scores at least the answer's score plus this, such as -0.05."""

    def __post_init__(self) -> None:
        _at_least("negatives.every_epochs", self.every_epochs, 0)
        _at_least("negatives.per_query", self.per_query, 1)
        _at_least("negatives.depth", self.depth, self.per_query + 1)
        if self.margin is not None and not math.isfinite(self.margin):
            raise ConfigError(
                f"negatives.margin is {self.margin}; it must be a number, such as -0.05."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class LossConfig:
    """What training lowers."""

    __pydantic_config__ = STRICT

    objective: Literal["contrastive", "cosent", "classification", "distillation"] = "contrastive"
    """contrastive: pick each query's answer out of the batch. cosent: order pairs as their score
    does. classification: tell each pair's label from (u, v, |u - v|). distillation: rank each
    query's own documents as a teacher's scores do, and contrast as well."""

    temperature: float = 0.02
    """What cosines are divided by; smaller means sharper. Classification has none."""

    dimensions: tuple[int, ...] = ()
    """Lower the sum of the objective over the first so many dimensions (Matryoshka), such as 384,
    128 and 32; none: over all dimensions alone, which are to be named too where some are."""

    dimension_weights: tuple[float, ...] = ()
    """Weights in that sum, one for each of dimensions; none: 1."""

    labels: tuple[str, ...] = ()
    """Classes that the pairs have, and no others, for classification; none: those that they
    have."""

    contrastive_weight: float = 0.2
    """Of the contrastive part in distillation; 0: none."""

    teacher_temperature: float = 1.0
    """What a teacher's scores are divided by in distillation."""

    def __post_init__(self) -> None:
        _positive("loss.temperature", self.temperature, such_as="0.02")
        _positive("loss.teacher_temperature", self.teacher_temperature, such_as="1")
        _at_least("loss.contrastive_weight", self.contrastive_weight, 0)
        for kept in self.dimensions:
            _at_least("loss.dimensions", kept, 1)
        if len({*self.dimensions}) < len(self.dimensions):
            raise ConfigError(
                f"loss.dimensions is {', '.join(map(str, self.dimensions))}; name each once."
            )
        if self.dimension_weights and len(self.dimension_weights) != len(self.dimensions):
            raise ConfigError(
                f"loss.dimension_weights has {len(self.dimension_weights)} weights for "
                f"{len(self.dimensions)} loss.dimensions; give one for each, or none."
            )
        for weight in self.dimension_weights:
            _positive("loss.dimension_weights", weight, such_as="1")
        if self.labels and self.objective != "classification":
            raise ConfigError(
                f"loss.labels are for classification, but loss.objective is {self.objective}; "
                "leave one of them out."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SpansConfig:
    """What is cut out of texts, where the task is span-corruption."""

    __pydantic_config__ = STRICT

    share: float = 0.15
    """Of a text's tokens."""

    mean_length: float = 3.0
    """Tokens of a span, on average."""

    def __post_init__(self) -> None:
        _positive("spans.share", self.share, such_as="0.15")
        _probability("spans.share", self.share)
        if not 1 <= self.mean_length < math.inf:
            raise ConfigError(
                f"spans.mean_length is {self.mean_length}; the least that works is 1."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimiserConfig:
    """AdamW, and how its learning rate moves."""

    __pydantic_config__ = STRICT

    learning_rate: float = 2e-5
    """Highest learning rate."""

    new_learning_rate: float = 0.0
    """The same of parts that are not from a backbone; 0: as the others."""

    weight_decay: float = 0.01
    """Decoupled weight decay; none on biases and norms."""

    betas: tuple[float, float] = (0.9, 0.999)
    """How much of the gradient's running mean, and of its square's, stays at each step."""

    epsilon: float = 1e-8
    """Added to the root of the second."""

    warmup: int = 1000
    """Steps in which the learning rate rises from 0."""

    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """After that: linearly, or as a cosine, to final_learning_rate at the end; or constant."""

    final_learning_rate: float = 0.0
    """What the learning rate falls to; that of new parts falls by the same factor."""

    clip: float = 1.0
    """Longest gradient, over all parameters; 0: any."""

    def __post_init__(self) -> None:
        _positive("optimiser.learning_rate", self.learning_rate, such_as="2e-5")
        _positive("optimiser.epsilon", self.epsilon, such_as="1e-8")
        for name in (
            *("new_learning_rate", "final_learning_rate"),
            *("weight_decay", "warmup", "clip"),
        ):
            _at_least(f"optimiser.{name}", getattr(self, name), 0)
        if self.final_learning_rate > self.learning_rate:
            raise ConfigError(
                f"optimiser.final_learning_rate is {self.final_learning_rate}, above the "
                f"optimiser.learning_rate of {self.learning_rate}; it cannot fall to that."
            )
        for beta in self.betas:
            _probability("optimiser.betas", beta)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """When the state of a run is saved."""

    __pydantic_config__ = STRICT

    every: int = 500
    """Steps from one to the next; 0: only at the end, and when the run is stopped."""

    keep: int = 2
    """How many of the latest stay."""

    def __post_init__(self) -> None:
        _at_least("checkpoints.every", self.every, 0)
        _at_least("checkpoints.keep", self.keep, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationConfig:
    """What the model is scored on while it is trained; decides nothing about the weights."""

    __pydantic_config__ = STRICT

    every: int = 0
    """Steps from one evaluation to the next, and one at the end; 0: never."""

    at_start: bool = True
    """Whether the untrained model is scored too, where anything is."""

    by: str = "mteb"
    """Who scores: a plug-in of the entry-point group cde_core.evaluations."""

    tasks: tuple[str, ...] = ()
    """Tasks, by name; where none are named, those of the data folders."""

    data: tuple[str, ...] = ()
    """Folders with data, such as BEIR folders."""

    context: tuple[str, ...] = ("corpus",)
    """What a contextual model reads first: corpus, random, none, task:NAME, file:PATH."""

    def __post_init__(self) -> None:
        _at_least("evaluation.every", self.every, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A training run."""

    __pydantic_config__ = STRICT

    name: str = ""
    """What the run is called; by default as its file."""

    about: str = ""
    """What it reproduces or shows."""

    output: Path | None = None
    """Folder of everything that the run writes; by default runs/NAME."""

    task: Literal["contrastive", "span-corruption"] = "contrastive"
    """What is learnt: which document answers a query; or, by a T5 with its decoder, to fill in what
    was cut out of texts. The second takes the texts of data.sources, the documents of pairs or a
    whole corpus, and ignores clusters, filter and loss; batches.size counts windows of
    model.max_length tokens."""

    seed: int = 0
    """Of new weights, packing, context draws, spans and dropout."""

    epochs: int = 1
    """How often every pair is seen."""

    steps: int = 0
    """Exactly so many steps, however many epochs that takes; 0: as many as the epochs have."""

    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the transformers' arithmetic; weights are float32."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""

    data: DataConfig = field(default_factory=DataConfig)
    """Where pairs come from."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """What is trained."""

    clusters: ClusterConfig = field(default_factory=ClusterConfig)
    """How pairs are grouped."""

    batches: BatchConfig = field(default_factory=BatchConfig)
    """How groups become batches."""

    filter: FilterConfig = field(default_factory=FilterConfig)
    """Which documents are no negatives."""

    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    """Hard negatives from the model under training."""

    loss: LossConfig = field(default_factory=LossConfig)
    """The loss."""

    spans: SpansConfig = field(default_factory=SpansConfig)
    """What is cut out of texts."""

    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    """The optimiser."""

    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When the state is saved."""

    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """What is scored in between."""

    tensorboard: bool = False
    """Write metrics for TensorBoard too."""

    def __post_init__(self) -> None:
        _at_least("seed", self.seed, 0)
        _at_least("epochs", self.epochs, 1)
        _at_least("steps", self.steps, 0)
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ConfigError(
                f"device is {self.device!r}; it can be auto, cpu, cuda, cuda:1 or mps."
            )
        if self.negatives.every_epochs and not self.batches.hard_negatives:
            raise ConfigError(
                f"negatives.every_epochs is {self.negatives.every_epochs}, but "
                "batches.hard_negatives is 0, so no step would use one; set it to "
                f"{self.negatives.per_query}."
            )
        self._check_objective()
        longest = self.model.train_length or self.model.max_length
        if self.batches.tokens_at_once < longest:
            raise ConfigError(
                f"batches.tokens_at_once is {self.batches.tokens_at_once}, but one text may have "
                f"{longest} tokens; the least that works is {longest}."
            )

    def _check_objective(self) -> None:
        """An objective and the batches that it needs."""
        objective, negatives = self.loss.objective, self.batches.hard_negatives
        if objective in ("cosent", "classification") and negatives:
            raise ConfigError(
                f"batches.hard_negatives is {negatives}, but loss.objective {objective} looks at "
                "no negatives; set it to 0."
            )
        if objective == "distillation" and not negatives:
            raise ConfigError(
                "batches.hard_negatives is 0, but loss.objective distillation ranks an answer "
                "among hard negatives; the least that works is 1."
            )
        if objective == "distillation" and self.negatives.every_epochs:
            raise ConfigError(
                f"negatives.every_epochs is {self.negatives.every_epochs}, but loss.objective "
                "distillation needs a teacher's scores, which negatives found in training have "
                "not; set it to 0."
            )
        if self.data.twice and (objective != "contrastive" or negatives):
            raise ConfigError(
                f"data.twice is true, which leaves texts alone, but loss.objective is {objective} "
                f"and batches.hard_negatives {negatives}; it works with contrastive and 0."
            )
        if self.data.twice and not self.model.dropout:
            raise ConfigError(
                "model.dropout is 0, so the two passes over a text that data.twice asks for would "
                "be the same; set it to 0.1."
            )


def _at_least(name: str, value: float, least: int) -> None:
    if not least <= value < math.inf:
        raise ConfigError(f"{name} is {value}; the least that works is {least}.")


def _positive(name: str, value: float, *, such_as: str) -> None:
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value}; it must be a number above 0, such as {such_as}.")


def _probability(name: str, value: float) -> None:
    if not 0 <= value < 1:
        nearest = "0" if not value > 0 else "0.999"
        raise ConfigError(
            f"{name} is {value}; it must be at least 0 and below 1, the nearest is {nearest}."
        )
