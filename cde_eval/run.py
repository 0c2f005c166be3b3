"""The whole evaluation on one page.

    models × tasks × policies × draws
        └─▶ finished before? keep its record
            └─▶ fresh task, bound encoder ─▶ mteb.evaluate ─▶ mteb's JSON ─▶ our record

Tasks are the outer loop, so that a biencoder's vectors serve all policies of a task. A model that
reads no context runs once whatever the policies, and a context of all documents is drawn once,
since there is no chance in either.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import mteb
import numpy as np
from mteb.abstasks import AbsTask, AbsTaskBitextMining, AbsTaskRetrieval
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from mteb.models import ModelMeta, SearchProtocol
from mteb.results import TaskResult
from mteb.types import EncodeKwargs
from tqdm.auto import tqdm

from cde_core.errors import CdeError, ConfigError
from cde_eval.contexts import ContextPolicy
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.plan import Evaluation, Failure, draws_of, foreign_documents
from cde_eval.query_scores import QueryScores
from cde_eval.results import (
    RunRecord,
    Score,
    commit,
    installed_versions,
    query_scores_path,
    read_record,
    record_path,
    write_atomically,
)
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.loading import load_task


def evaluate(plan: Evaluation, output: Path) -> Iterator[RunRecord | Failure]:
    """Run a plan, yielding each record as it is on disk; what is finished is read, not run.

    A task that cannot be loaded, or that a model cannot do, is a `Failure` and the others go on.

    Args:
        plan: Models, tasks, policies, draws.
        output: Results folder; see `cde_eval.results` for what is written.

    Raises:
        ModelError: If a model cannot be loaded.
        ConfigError: If two of them cannot be told apart.
    """
    _quiet()
    _tell_apart(plan)  # which loads them all: one that does not is known before work starts
    steps = [(task, model) for task in plan.tasks for model in plan.models]
    bar = tqdm(steps, desc="evaluations", unit="", disable=True if len(steps) < 2 else None)
    for source, model in bar:
        bar.set_postfix_str(f"{model} · {source.name}")
        try:
            encoder = plan.encoder(model)
            if encoder.task_types is not None and source.kind not in encoder.task_types:
                reason = f"{model} does not do {source.kind} tasks; {source.name} is left out."
                yield Failure(model, source.name, reason, expected=True)
                continue
            for policy, draw, draws in draws_of(encoder, plan.policies, plan.draws):
                yield evaluate_one(plan, source, model, policy, draw, draws, output)
        except CdeError as error:
            yield Failure(model, source.name, str(error))


def _tell_apart(plan: Evaluation) -> None:
    """Refuse models under two names whose results would be filed as one's.

    Raises:
        ConfigError: If two names stand for the same encoder, by all that it says of itself.
    """
    known: dict[str, str] = {}
    for model in plan.models:
        encoder = plan.encoder(model)
        identity = json.dumps([encoder.name, encoder.revision, sorted(encoder.settings.items())])
        other = known.setdefault(identity, model)
        if other != model:
            raise ConfigError(
                f"--model names {other} and {model}, which say the same name, revision and "
                f"settings of themselves ({encoder.name}, {encoder.revision}), so their results "
                "would be taken for one another's; name one of them, or let the encoder's "
                "settings say what differs."
            )


def evaluate_one(
    plan: Evaluation,
    source: TaskSource,
    model: str,
    policy: ContextPolicy,
    draw: int,
    draws: int,
    output: Path,
) -> RunRecord:
    """One model on one task under one draw: read its record if it is there, else make it.

    A record made from other data than the task has now (its revision tells), or of other parts
    than are asked for now, is made again.
    """
    encoder = plan.encoder(model)
    task = source.make()
    seen_by_mteb = MtebEncoder(
        encoder,
        policy,
        draw=draw,
        protocol=plan.protocol,
        foreign=foreign_documents(policy, source.name, plan),
        rerank_as_search=plan.rerank_as_search,
        device=plan.options.device,
    )
    _file_apart(seen_by_mteb, source.choices)
    choices = dict(seen_by_mteb.mteb_model_meta.experiment_kwargs or {})
    path = record_path(output, encoder.name, encoder.revision, choices, source.name)
    seen_by_mteb.unfinished = path.with_suffix(".unfinished")
    finished = read_record(path)
    data_hash = source.data_hash()
    parts = tuple(f"{split}/{part}" for split in task.eval_splits for part in task.hf_subsets)
    if finished is not None and _is_of(finished, task.metadata.revision, data_hash, parts):
        return finished
    gflops = machine_speed()
    started = time.perf_counter()
    by_query = QueryScores()
    result = _mteb_result(seen_by_mteb, task, source, by_query)
    seconds = time.perf_counter() - started
    contexts, work = seen_by_mteb.contexts, seen_by_mteb.work
    record = RunRecord(
        model=model,
        model_name=encoder.name,
        model_revision=encoder.revision,
        task=source.name,
        task_type=str(task.metadata.type),
        task_revision=task.metadata.revision,
        data_origin=source.origin,
        data_hash=data_hash,
        parts=parts,
        main_measure=task.metadata.main_score,
        scores=_scores(result),
        policy=policy.source,
        protocol=plan.protocol.name,
        context_size=contexts.size,
        draw=draw,
        draws=draws,
        contexts=contexts.records(),
        settings=dict(encoder.settings),
        candidates=dict(source.candidates),
        seconds=round(seconds, 3),
        texts=work.texts,
        texts_per_second=round(work.texts / max(work.seconds, 1e-9), 1),
        device=plan.options.device,
        gflops=gflops,
        versions=installed_versions(),
        commit=commit(),
    )
    _write_mteb_result(result, seen_by_mteb.mteb_model_meta, output)
    by_query.write(query_scores_path(path))
    write_atomically(path, record.model_dump_json(indent=1) + "\n")
    return record


def _is_of(record: RunRecord, revision: str, data_hash: str, parts: tuple[str, ...]) -> bool:
    """Whether a record is of this data and these parts; one of an older version does not say."""
    same_data = (record.task_revision, record.data_hash) == (revision, data_hash)
    return same_data and record.parts in ((), parts)


def _mteb_result(
    model: MtebEncoder,
    task: AbsTask,
    source: TaskSource,
    by_query: QueryScores,
    *,
    is_part: bool = False,
) -> TaskResult:
    """Evaluate a task as `mteb.evaluate` does, subset by subset.

    Not through it, since it keeps a cache of its own notion of what is finished (`record_path`
    has ours) and imports sentence-transformers for seconds whatever the model is.
    """
    if isinstance(task, AbsTaskAggregate):
        parts = [
            _mteb_result(model, part, source, by_query, is_part=True)
            for part in task.metadata.tasks
        ]
        return task.combine_task_results(parts)
    started = time.perf_counter()
    load_task(task, source)
    model.bind([task])
    if isinstance(task, AbsTaskRetrieval):
        by_query.listen(task, is_part=is_part)
    as_mteb_types_it = cast(SearchProtocol, model)
    together = isinstance(task, AbsTaskBitextMining)  # its subsets may be columns of one table
    scores: dict[str, dict[str, Any]] = {split: {} for split in task.eval_splits}
    for split in task.eval_splits:
        for subsets in [task.hf_subsets] if together else [[one] for one in task.hf_subsets]:
            kwargs = EncodeKwargs(batch_size=32, show_progress_bar=False)
            scores[split].update(
                task.evaluate(as_mteb_types_it, split, subsets, encode_kwargs=kwargs)
            )
    seconds = time.perf_counter() - started
    return TaskResult.from_task_results(task, scores, seconds, None, datetime.now(tz=UTC))


def _file_apart(model: MtebEncoder, choices: Mapping[str, str]) -> None:
    """File results of a changed task apart from those of the task itself.

    mteb has one place for both, and would serve the full search's score for rescored candidates.
    """
    if choices:
        meta = model.mteb_model_meta
        chosen = {**(meta.experiment_kwargs or {}), **choices}
        model.mteb_model_meta = meta.model_copy(update={"experiment_kwargs": chosen})


def _scores(result: TaskResult) -> tuple[Score, ...]:
    return tuple(
        Score(
            split=split,
            subset=entry["hf_subset"],
            main=_defined(float(entry["main_score"])),
            measures={
                name: _defined(value)
                for name, value in entry.items()
                if name not in ("hf_subset", "languages", "main_score", "mteb_version")
            },
        )
        for split, entries in result.scores.items()
        for entry in entries
    )


def _defined(value: Any) -> Any:
    """None for NaN: JSON has no NaN, and "undefined" is not a number."""
    return None if isinstance(value, float) and np.isnan(value) else value


def _write_mteb_result(result: TaskResult, meta: ModelMeta, output: Path) -> None:
    """What `mteb.ResultCache(OUTPUT/mteb)` reads, each file whole or not at all."""
    path = mteb.ResultCache(output / "mteb").get_task_result_path(result.task_name, meta)
    write_atomically(path, result.to_disk)
    fields = json.dumps(meta.to_dict(), indent=4, default=str)
    write_atomically(path.parent / "model_meta.json", fields + "\n")


@lru_cache(maxsize=1)
def machine_speed(size: int = 1024) -> float:
    """GFLOP/s of a float32 matrix product on the CPU now; machines throttle, so it is recorded."""
    left = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    left @ left
    started = time.perf_counter()
    for _ in range(5):
        left @ left
    return round(5 * 2 * size**3 / (time.perf_counter() - started) / 1e9, 1)


def _quiet() -> None:
    """Leave progress and results on the terminal; libraries' chatter goes."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    for name in ("mteb", "sentence_transformers", "datasets", "huggingface_hub", "httpx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import datasets
    from transformers.utils.logging import disable_progress_bar

    datasets.disable_progress_bars()
    disable_progress_bar()  # type: ignore[no-untyped-call]
