"""Candidate lists: the best documents of a first retriever, for every query of a search task.

    task, retriever ──▶ find_candidates ──▶ OUTPUT/candidates/TASK/SPLIT/RETRIEVER-DEPTH.run

The lists are files that trec_eval and its relatives read. They are made once for a retriever, a
revision of the data and a depth; `rescoring` has other models rank them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytrec_eval
from mteb.abstasks import AbsTaskRetrieval

from cde_core.errors import ConfigError, DataError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import Encoder
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.results import file_name
from cde_eval.tasks.catalogue import TaskSource
from cde_eval.tasks.search_data import Place, judged_queries, load_search_task, places
from cde_eval.trec_run import CandidateLists, RunHeader, read_run, write_run

GTR = "sentence-transformers/gtr-t5-base"
"""The paper's retriever: Ni et al. (2021), Large dual encoders are generalizable retrievers."""


def retriever_model(name: str) -> str:
    """The model that `--retriever` names: "gtr" is GTR-base, all else as after `--model`."""
    return f"biencoder:{GTR}" if name == "gtr" else name


@dataclass(frozen=True, slots=True)
class Candidates:
    """The lists of one task."""

    source: TaskSource

    lists: Mapping[Place, CandidateLists]
    """At least as deep as `depth`."""

    files: Mapping[Place, Path]

    depth: int

    recall: float
    """Share of the relevant documents that the lists hold to this depth, the mean over queries:
    the ceiling of whatever rescores them."""


def find_candidates(
    source: TaskSource,
    retriever: Encoder,
    *,
    depth: int,
    drop_own_ids: bool,
    output: Path,
    device: str = "cpu",
) -> Candidates:
    """The lists of a task, by subset and split: read where they are, else made and kept.

    Lists of the same retriever on the same data that are deeper than asked for serve as well.

    Args:
        source: A search task.
        retriever: Ranks the corpus; it reads a sample of it first, if it is contextual.
        depth: Documents per query.
        drop_own_ids: Leave out the document that has the query's own id, in every task; else only
            where the task itself says so.
        output: Results folder; lists are kept in `candidates` below it.
        device: Where to search.

    Raises:
        TaskError: If it is not a search task, or its data cannot be loaded.
        ConfigError: If the depth is below 1.
        DataError: If lists on disk are damaged.
    """
    if depth < 1:
        raise ConfigError(f"Candidates of depth {depth} cannot be made; keep at least one.")
    task = load_search_task(source)
    searcher = MtebEncoder(retriever, ContextPolicy("corpus"), device=device)
    searcher.bind([task])
    lists: dict[Place, CandidateLists] = {}
    files: dict[Place, Path] = {}
    for subset, split in places(task):
        header = RunHeader(
            retriever=retriever.name,
            retriever_revision=retriever.revision,
            settings=dict(searcher.mteb_model_meta.experiment_kwargs or {}),
            task=source.name,
            split=split,
            subset=subset,
            data_revision=task.metadata.revision,
            data_hash=source.data_hash(),
            depth=depth,
            excludes_own_id=drop_own_ids or task.ignore_identical_ids,
        )
        folder = output / "candidates" / file_name(source.name) / _place_name(subset, split)
        path = _kept(folder, header)
        if path is None:
            path = folder / f"{_stem(header)}-{depth}.run"
            write_run(path, _made(searcher, task, header))
        lists[subset, split], files[subset, split] = read_run(path), path
    return Candidates(source, lists, files, depth, _recall(task, lists, depth))


def _made(encoder: MtebEncoder, task: AbsTaskRetrieval, header: RunHeader) -> CandidateLists:
    """Search with the retriever; one more than needed, where the query itself may be dropped."""
    data = task.dataset[header.subset][header.split]
    place: dict[str, Any] = {
        "task_metadata": task.metadata,
        "hf_split": header.split,
        "hf_subset": header.subset,
        "encode_kwargs": {},
    }
    encoder.index(data["corpus"], **place)
    found = encoder.search(data["queries"], top_k=header.depth + 1, **place)
    lists = {
        query: [one for one in ranked.items() if not (header.excludes_own_id and one[0] == query)][
            : header.depth
        ]
        for query, ranked in found.items()
    }
    return CandidateLists(header, lists)


def _kept(folder: Path, header: RunHeader) -> Path | None:
    """The shallowest lists on disk that hold what is asked for."""
    by_depth = {
        int(path.stem.rpartition("-")[2]): path for path in folder.glob(f"{_stem(header)}-*.run")
    }
    deep_enough = [depth for depth in by_depth if depth >= header.depth]
    return by_depth[min(deep_enough)] if deep_enough else None


def _stem(header: RunHeader) -> str:
    """File name without the depth: the retriever, and a hash of all that decides its lists."""
    fields = {key: v for key, v in dataclasses.asdict(header).items() if key != "depth"}
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
    return f"{file_name(header.retriever)}-{digest[:8]}"


def _place_name(subset: str, split: str) -> str:
    return file_name(split if subset == "default" else f"{split}-{subset}")


def _recall(task: AbsTaskRetrieval, lists: Mapping[Place, CandidateLists], depth: int) -> float:
    """Share of the relevant documents that the lists hold, the mean over queries and places."""
    means = []
    for place, one in lists.items():
        relevant = judged_queries(task, place)
        if not relevant:
            raise DataError(
                f"{task.metadata.name} ({place[1]}) has no query with a relevant document, so no "
                "list has a recall; see the grades of its judgements."
            )
        evaluator = pytrec_eval.RelevanceEvaluator(relevant, {f"recall.{depth}"})
        run = {query: dict(one.lists[query][:depth]) for query in relevant if query in one.lists}
        found = evaluator.evaluate(run)
        total = sum(scores[f"recall_{depth}"] for scores in found.values())
        means.append(total / len(relevant))
    return sum(means) / len(means)
