"""Embedding and searching on a Ray cluster, a block at a time.

    this process                              a worker, on any machine of the cluster
    block of texts      ──▶ task  ──────────▶ load_encoder, once ──▶ encode  ──▶ vectors
    block of vectors    ──▶ task  ──────────▶ nearest                ──▶ its best ──▶ merged

A task's result depends on its arguments alone, so Ray does the task of a lost machine again on
another one, and no block is missing or there twice. Each machine has the same packages, and the
model under the same name with the same revision, which is checked; vectors travel, weights do not.

What a model reads as context is read here, once, and sent. An encoder that ranks by itself (BM25)
ranks here.

Source: Moritz et al. (2018), Ray, https://arxiv.org/abs/1712.05889; fault tolerance of tasks:
https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html
"""

from __future__ import annotations

import dataclasses
import itertools
import platform
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cde_core.errors import CdeError, CdeWarning, ConfigError, ModelError
from cde_core.text import Purpose
from cde_eval.encoders.protocol import Encoder
from cde_eval.encoders.registry import LoadOptions, load_encoder
from cde_eval.engines.cluster import connect, first_line, machines_of_cluster
from cde_eval.ranking import Ranking, merged
from cde_eval.search import LARGEST_TILE, nearest
from cde_eval.vectors import RowsOfVectors, Vectors

MOST_RETRIES = 8
"""Machines that may be lost under one block before the run is given up."""

MOST_CORES = 4
"""Per worker, each of which has the model in memory."""

BLOCKS_PER_WORKER = 2
"""Of those in flight: one in work, and the next one there already."""

BYTES_PER_SEARCH = 2**27
"""Of document vectors in a task, about."""


class RayEngine:
    """The machines of a Ray cluster, for one model."""

    def __init__(self, model: str, options: LoadOptions, address: str | None = None) -> None:
        """Connect, or start a cluster of this machine alone that ends with this process.

        Args:
            model: The encoder, by the name that `load_encoder` takes.
            options: How workers load it.
            address: As `ray.init` takes it; None: $RAY_ADDRESS, else a new cluster. A process that
                is connected already stays where it is.

        Raises:
            ConfigError: If Ray is not installed, or no cluster of its version is at the address.
        """
        connect(address)
        self._model = _wherever_it_is_read(model)
        on_gpu = options.device.startswith("cuda")
        device = "cuda" if on_gpu else options.device  # a worker sees its own GPU only
        self._options = dataclasses.replace(options, device=device, engine="here")
        self._needs = {"CPU": 1.0, "GPU": 1.0} if on_gpu else {"CPU": float(_cores_per_worker())}
        self._seen: set[str] = set()

    def embed(
        self, encoder: Encoder, blocks: Iterator[list[str]], purpose: Purpose, context: Any
    ) -> Iterator[tuple[int, Vectors]]:
        """The number of each block with its vectors, as they come.

        Raises:
            ModelError: If a machine does not have the model in the revision that this one has.
            Exception: What the encoder raised.
        """
        import ray

        there = ray.put(context)
        calls = (
            (self._model, self._options, encoder.revision, texts, purpose, there)
            for texts in blocks
        )
        return self._results(_embedded, calls)

    def search(
        self, queries: Vectors, documents: RowsOfVectors, top_k: int, *, device: str
    ) -> Ranking:
        """What `nearest` gives; a corpus of less than two blocks is searched in this process."""
        import ray

        tiles = max(1, BYTES_PER_SEARCH // (4 * queries.shape[1] * LARGEST_TILE))
        blocks = _blocks(len(documents), tiles * LARGEST_TILE)
        # `nearest` counts in the same way for every block only if each has k documents.
        if len(blocks) < 2 or top_k > LARGEST_TILE:
            return nearest(queries, documents, top_k, device=device)
        there = ray.put(queries)
        calls = (
            (there, documents[start:stop], start, top_k, self._options.device)
            for start, stop in blocks
        )
        return merged((ranking for _, ranking in self._results(_nearest, calls)), top_k)

    def _results(self, work: Any, calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """The number of each call with its result, in any order, with few calls in flight."""
        import ray

        task = ray.remote(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs.get("GPU", 0),
            max_retries=MOST_RETRIES,
            retry_exceptions=False,  # an error of the encoder is one everywhere
            max_calls=0,  # else a worker with a GPU would load the model for every block
            scheduling_strategy="SPREAD",
        )(work)
        remaining = enumerate(calls)
        pending: dict[Any, int] = {}
        while True:
            free = max(1, BLOCKS_PER_WORKER * self._workers()) - len(pending)
            for number, arguments in itertools.islice(remaining, max(0, free)):
                threads = int(self._needs["CPU"])
                pending[task.remote(threads, *arguments)] = number
            if not pending:
                return
            (done, *_), _ = ray.wait(list(pending), num_returns=1)
            # If that is an error, the few blocks in flight are done for nobody. Cancelling one that
            # is about to be sent ends this process (Ray 2.60, "Tried to complete task that was not
            # pending").
            yield pending.pop(done), _result(done)

    def _workers(self) -> int:
        """Tasks that the cluster can do at once: machines come and go."""
        machines = machines_of_cluster()
        if lost := len(self._seen - machines.keys()):
            warnings.warn(
                f"The Ray cluster lost {lost} of its machines and has {len(machines)} left; what "
                "was being done there is done again.",
                CdeWarning,
                stacklevel=2,
            )
        self._seen = set(machines)
        workers = sum(
            int(min(machine.get(kind, 0) / amount for kind, amount in self._needs.items()))
            for machine in machines.values()
        )
        if not workers:
            wanted = " and ".join(f"{amount:g} {kind}" for kind, amount in self._needs.items())
            warnings.warn(
                f"No machine of the Ray cluster has {wanted}; waiting for one to join it.",
                CdeWarning,
                stacklevel=2,
            )
        return workers


def _embedded(
    threads: int,
    model: str,
    options: LoadOptions,
    revision: str,
    texts: list[str],
    purpose: Purpose,
    context: Any,
) -> Vectors:
    """On a worker: vectors of texts."""
    try:
        encoder = load_encoder(model, options)
    except CdeError as error:
        raise type(error)(f"On {platform.node()}, a machine of the cluster: {error}") from error
    if encoder.revision != revision:
        raise ModelError(
            f"The model {model!r} is {encoder.revision} on {platform.node()}, a machine of the "
            f"cluster, and {revision} here; put the same files on both."
        )
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)  # Ray says it in the environment, after it was read
    with threadpool_limits(threads):
        return encoder.encode(texts, purpose=purpose, context=context)


def _nearest(
    threads: int, queries: Vectors, documents: Vectors, first: int, top_k: int, device: str
) -> Ranking:
    """On a worker: the nearest of some documents, by their rows in the whole corpus."""
    with threadpool_limits(threads):
        found = nearest(queries, documents, top_k, device=device)
    return Ranking(rows=found.rows + first, scores=found.scores)


def _result(done: Any) -> Any:
    """What a task returned; or what it raised, as it was."""
    import ray

    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if "failed to import on the worker" in str(error):
            raise ConfigError(
                "A machine of the Ray cluster cannot import cde_eval; install the same version "
                "there, in the environment that `ray start` is run in."
            ) from error
        if isinstance(error.cause, CdeError):
            raise error.cause from None
        raise error.cause from error  # which has the worker's traceback
    except ray.exceptions.RayError as error:
        raise CdeError(
            f"The Ray cluster lost the same block {MOST_RETRIES + 1} times: {first_line(error)} "
            "See that a worker has enough memory for the model; what is embedded so far is kept."
        ) from error


def _wherever_it_is_read(model: str) -> str:
    """The model's name, with the whole path where it is a folder: workers start elsewhere."""
    kind, colon, argument = model.partition(":")
    if Path(model).is_dir():
        return str(Path(model).resolve())
    if colon and argument and Path(argument).is_dir():
        return f"{kind}:{Path(argument).resolve()}"
    return model


def _cores_per_worker() -> int:
    """As many as the smallest machine that computes has, up to a bound."""
    cores = [int(machine.get("CPU", 0)) for machine in machines_of_cluster().values()]
    return min([MOST_CORES, *(count for count in cores if count >= 1)])


def _blocks(rows: int, size: int) -> list[tuple[int, int]]:
    """Start and stop of blocks of that size; the last one has what is left over, too."""
    starts = range(0, max(rows - size, 0) + 1, size)
    return [(start, rows if start == starts[-1] else start + size) for start in starts]
