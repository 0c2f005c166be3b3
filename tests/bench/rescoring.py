"""Candidates and their rescoring: ours against mteb's own two-stage reranking.

100,000 documents of 384 dimensions and 1,000 queries with vectors at hand. First stage: search, and
write the lists (ours a TREC run of depth 1,024 with its checksum, mteb's a JSON file). Second
stage: read them and rank them; loading of data is not timed, scores must be equal. Then the same
second stage with a real encoder and 50 queries on a small task, since what rescoring saves is
encoding: mteb embeds the whole corpus, we the union of the lists.
"""

import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import mteb
from mteb.abstasks import AbsTask

from cde_eval.candidates import find_candidates
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.rescoring import RULES, rescored
from cde_eval.tasks.catalogue import TaskSource, find_tasks
from tests.bench.report import Row, median_of
from tests.bench.search import ThroughMteb, VectorsAtHand, task

DEPTH = 1024
SMALL, SMALL_DEPTH, SMALL_QUERIES = "DocsNetworkX", 10, 50


def few_queries(source: TaskSource) -> TaskSource:
    """The task with its first queries only."""

    def make() -> AbsTask:
        one = source.make()
        one.load_data()
        data = one.dataset["default"]["test"]
        data["queries"] = data["queries"].select(range(SMALL_QUERIES))
        kept = set(data["queries"]["id"])
        data["relevant_docs"] = {q: d for q, d in data["relevant_docs"].items() if q in kept}
        return one

    return dataclasses.replace(source, make=make)


def evaluated(model: Any, one: AbsTask) -> float:
    result = mteb.evaluate(model, one, cache=None, show_progress_bar=False)
    return float(result.task_results[0].get_score())


def ours(source: TaskSource, encoder: Any, folder: Path, depth: int) -> tuple[float, float, float]:
    """Seconds of both stages, and the score."""
    started = time.perf_counter()
    found = find_candidates(source, encoder, depth=depth, drop_own_ids=False, output=folder)
    first = time.perf_counter() - started
    second_task = rescored(found, RULES["mteb"]).make()
    second_task.load_data()
    started = time.perf_counter()
    score = evaluated(MtebEncoder(encoder), second_task)
    return first, time.perf_counter() - started, score


def theirs(make: Any, model: Any, folder: Path, depth: int) -> tuple[float, float, float]:
    """The same through mteb alone."""
    one = make()
    one._top_k = depth
    started = time.perf_counter()
    mteb.evaluate(model, one, cache=None, show_progress_bar=False, prediction_folder=folder)
    first = time.perf_counter() - started
    other = make()
    started = time.perf_counter()
    score = evaluated(model, other.convert_to_reranking(folder, top_k=depth))
    return first, time.perf_counter() - started, score


class RealThroughMteb(ThroughMteb):
    """A real encoder through mteb's own search, texts as mteb hands them over."""

    def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any, **_: Any) -> Any:
        from cde_core.text import Purpose

        texts = [text for batch in inputs for text in batch["text"]]
        purpose = Purpose("Retrieval", prompt_type.value, task_metadata.name)
        return self.vectors.encode(texts, purpose=purpose)


def run() -> list[Row]:
    import sentence_transformers  # noqa: F401  (mteb.evaluate imports it, which is not timed)

    from cde_eval.encoders import load_encoder

    vectors = VectorsAtHand()
    through_mteb = ThroughMteb(vectors)
    source = TaskSource("Bench", "built-in", task, "Retrieval")
    seconds: dict[str, list[float]] = {name: [] for name in ("our 1", "our 2", "mteb 1", "mteb 2")}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            first, second, score = ours(source, vectors, Path(folder), DEPTH)
            seconds["our 1"].append(first)
            seconds["our 2"].append(second)
            first, second, other = theirs(task, through_mteb, Path(folder), DEPTH)
            seconds["mteb 1"].append(first)
            seconds["mteb 2"].append(second)
            assert round(score, 4) == round(other, 4), (score, other)
    for kept in seconds.values():
        del kept[0]  # the first round warms up
    minilm = load_encoder("minilm")
    small = few_queries(find_tasks([SMALL])[0])
    with tempfile.TemporaryDirectory() as folder:
        _, our_small, score = ours(small, minilm, Path(folder), SMALL_DEPTH)
        one = small.make()
        one.load_data()
        (found,) = find_candidates(
            small, minilm, depth=SMALL_DEPTH, drop_own_ids=False, output=Path(folder)
        ).lists.values()
        lists = {query: dict(documents) for query, documents in found.lists.items()}
        about = {"mteb_model_meta": {"model_name": "a/b", "revision": "1"}}
        predictions = Path(folder) / f"{SMALL}_predictions.json"
        predictions.write_text(json.dumps({**about, "default": {"test": lists}}))
        started = time.perf_counter()
        again = one.convert_to_reranking(predictions, top_k=SMALL_DEPTH)
        other = evaluated(RealThroughMteb(minilm), again)
        mteb_small = time.perf_counter() - started
        assert round(score, 4) == round(other, 4), (score, other)
    size = f"vectors at hand, 100k x 384, 1000 queries, depth {DEPTH}"
    return [
        Row(
            f"candidates found and written, {size}",
            peer="mteb",
            ratio=median_of(seconds["mteb 1"], seconds["our 1"]),
            wanted=2.0,
            detail=f"{min(seconds['our 1']):.2f} s against {min(seconds['mteb 1']):.2f} s",
        ),
        Row(
            f"candidates read and rescored, {size}",
            peer="mteb two-stage",
            ratio=median_of(seconds["mteb 2"], seconds["our 2"]),
            wanted=1.0,
            detail=f"{min(seconds['our 2']):.2f} s against {min(seconds['mteb 2']):.2f} s",
        ),
        Row(
            f"MiniLM on {SMALL}, {SMALL_QUERIES} queries, depth {SMALL_DEPTH}",
            peer="mteb two-stage",
            ratio=mteb_small / our_small,
            wanted=1.0,
            detail=f"{our_small:.1f} s against {mteb_small:.1f} s, nDCG@10 {score:.4f} both; "
            "we embed the union of the lists, mteb the whole corpus",
        ),
    ]
