"""Run records made by hand."""

from typing import Any

from cde_eval.results import RunRecord, Score


def record(
    task: str = "NFCorpus",
    score: float | None = 0.5,
    *,
    scores: dict[tuple[str, str], float | None] | None = None,
    **changes: Any,
) -> RunRecord:
    """A record of a score; `scores` gives several, by (split, subset)."""
    by_place = scores or {("test", "default"): score}
    fields: dict[str, Any] = {
        "model": "tiny",
        "model_name": "tests/tiny",
        "model_revision": "1",
        "task": task,
        "task_type": "Retrieval",
        "task_revision": "sha256-0",
        "data_origin": "built-in",
        "data_hash": "",
        "main_measure": "ndcg_at_10",
        "scores": tuple(
            Score(split=split, subset=subset, main=main, measures={"ndcg_at_10": main})
            for (split, subset), main in by_place.items()
        ),
        "policy": "corpus",
        "protocol": "paper",
        "context_size": 8,
        "draw": 0,
        "draws": 1,
        "contexts": {"test/default": {"source": f"corpus:{task}/test", "documents": 8}},
        "settings": {},
        "seconds": 1.0,
        "texts": 10,
        "texts_per_second": 10.0,
        "device": "cpu",
        "gflops": 100.0,
        "versions": {"python": "3.11.0", "mteb": "2.26.24"},
        "commit": "0123456789ab",
    }
    if changes.get("policy") == "none":
        fields["context_size"] = 0
    return RunRecord(**{**fields, **changes})
