"""A whole retrieval evaluation with vectors at hand: ours against mteb's own path.

100,000 documents of 384 dimensions, 1,000 queries, k = 1,000; loading of data is not timed, and
scores must be equal. Timed twice: warm, both through `mteb.evaluate`; and as the first evaluation
of a fresh process, each the way a user comes by it, where `mteb.evaluate` still has to import
sentence-transformers and `cde-eval` goes to the task directly.
"""

import subprocess
import sys
import time
from typing import Any

import mteb
import numpy as np
from datasets import Dataset
from mteb.abstasks import AbsTask
from mteb.models.abs_encoder import AbsEncoder

from cde_core.text import Purpose
from cde_eval.mteb_encoder import MtebEncoder
from cde_eval.tasks.local import local_task
from tests.bench.report import Row, median_of

DOCUMENTS, QUERIES, DIM = 100_000, 1_000, 384


class VectorsAtHand:
    """Texts are row numbers."""

    name, revision, context_size, similarity = "bench/vectors", "1", 0, "cosine"
    task_types, settings = None, {}

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.documents = rng.standard_normal((DOCUMENTS, DIM), dtype=np.float32)
        near = self.documents[:QUERIES]
        self.queries = near + 3 * rng.standard_normal((QUERIES, DIM), dtype=np.float32)
        for vectors in (self.documents, self.queries):  # as sentence encoders give them
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def read_context(self, documents: Any, *, purpose: Purpose) -> None:
        return None

    def encode(self, texts: Any, *, purpose: Purpose, context: Any = None) -> Any:
        at_hand = self.queries if purpose.role == "query" else self.documents
        first, last = int(texts[0]), int(texts[-1])
        if last - first + 1 == len(texts):
            return at_hand[first : last + 1]  # texts come in the order of rows
        return at_hand[np.array(texts, dtype=np.int64)]


class ThroughMteb(AbsEncoder):
    """The same vectors through mteb's search."""

    def __init__(self, vectors: VectorsAtHand) -> None:
        self.vectors = vectors
        self.mteb_model_meta = MtebEncoder(vectors).mteb_model_meta

    def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any, **_: Any) -> Any:
        texts = [text for batch in inputs for text in batch["text"]]
        return self.vectors.encode(texts, purpose=Purpose("Retrieval", prompt_type.value))


def task() -> AbsTask:
    data = {
        "corpus": Dataset.from_dict(
            {
                "id": [f"d{i}" for i in range(DOCUMENTS)],
                "title": [""] * DOCUMENTS,
                "text": [str(i) for i in range(DOCUMENTS)],
            }
        ),
        "queries": Dataset.from_dict(
            {"id": [f"q{i}" for i in range(QUERIES)], "text": [str(i) for i in range(QUERIES)]}
        ),
        "relevant_docs": {f"q{i}": {f"d{i}": 1} for i in range(QUERIES)},
        "top_ranked": None,
    }
    made = local_task(
        "Bench",
        "Retrieval",
        read=lambda: {"default": {"test": data}},
        revision="1",
        description="-",
    )
    made.load_data()
    return made


def first_evaluation(whose: str) -> None:
    """Print the seconds that the first evaluation of this process takes."""
    vectors, one = VectorsAtHand(), task()
    started = time.perf_counter()
    if whose == "ours":
        one.evaluate(MtebEncoder(vectors), "test", encode_kwargs={"batch_size": 32})
    else:
        mteb.evaluate(ThroughMteb(vectors), one, cache=None, show_progress_bar=False)
    print(time.perf_counter() - started)


def in_a_fresh_process(whose: str) -> float:
    command = [sys.executable, "-m", "tests.bench.search", whose]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def run() -> list[Row]:
    import sentence_transformers  # noqa: F401  (mteb.evaluate imports it, which is not timed)

    vectors = VectorsAtHand()
    ours, theirs = MtebEncoder(vectors), ThroughMteb(vectors)
    seconds: dict[str, list[float]] = {"ours": [], "mteb": []}
    searching: dict[str, list[float]] = {"ours": [], "mteb": []}
    scores = {}
    for _ in range(4):
        for name, model in (("ours", ours), ("mteb", theirs)):
            one = task()
            started = time.perf_counter()
            result = mteb.evaluate(model, one, cache=None, show_progress_bar=False)
            seconds[name].append(time.perf_counter() - started)
            scoring = sum(
                phase["end"] - phase["start"]
                for phase in result.task_results[0].evaluation_phases
                if phase["name"] == "Scoring"
            )
            searching[name].append(seconds[name][-1] - scoring)
            scores[name] = result.task_results[0].get_score()
    for kept in (*seconds.values(), *searching.values()):
        del kept[0]  # the first round warms up: memory comes from the system page by page
    assert round(scores["ours"], 4) == round(scores["mteb"], 4), scores
    fresh = {name: [in_a_fresh_process(name) for _ in range(3)] for name in ("ours", "mteb")}
    size = "vectors at hand, 100k x 384, 1000 queries, k = 1000"
    return [
        Row(
            f"index and search, {size}",
            peer="mteb",
            ratio=median_of(searching["mteb"], searching["ours"]),
            wanted=5.0,
            detail=f"{min(searching['ours']):.2f} s against {min(searching['mteb']):.2f} s",
        ),
        Row(
            "the same with mteb's own scoring, which both share",
            peer="mteb",
            ratio=median_of(seconds["mteb"], seconds["ours"]),
            wanted=5.0,
            detail=f"{min(seconds['ours']):.2f} s against {min(seconds['mteb']):.2f} s, "
            f"nDCG@10 {scores['ours']:.4f} both",
        ),
        Row(
            "the same, as the first evaluation of a fresh process",
            peer="mteb",
            ratio=median_of(fresh["mteb"], fresh["ours"]),
            wanted=5.0,
            detail=f"{min(fresh['ours']):.2f} s against {min(fresh['mteb']):.2f} s",
        ),
    ]


if __name__ == "__main__":
    first_evaluation(sys.argv[1])
