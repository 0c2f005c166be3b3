"""Pairs about a few matters, as files and as they are after a surrogate has read them."""

import json
from pathlib import Path

import numpy as np

from cde_core.recipe import Recipe
from cde_core.train.batching.surrogates import PairVectors
from cde_core.train.data.pairs import Pair, write_pairs
from cde_eval.commands.options import Judging
from cde_eval.probes.pairs import JudgedPairs, judged_pairs

MATTERS = {
    "tax": ["income", "levy", "deduction", "refund", "return", "audit"],
    "fruit": ["apple", "pear", "plum", "orchard", "cider", "graft"],
    "rail": ["train", "station", "signal", "platform", "locomotive", "timetable"],
}


def pairs_file(folder: Path, each: int = 24) -> Path:
    """A file of pairs; a pair shares words with those of its matter alone."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(each):
        for matter, words in MATTERS.items():
            asked, told = (" ".join(rng.choice(words, 3)) for _ in range(2))
            rows.append(
                {"query": f"{matter} {asked} q{number}", "document": f"{matter} {told} d{number}"}
            )
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_by_tfidf(folder: Path) -> JudgedPairs:
    """Those pairs, with TF-IDF as the surrogate."""
    return judged_pairs(by_tfidf(pairs_file(folder)).recipe(), lambda line: None)


def by_tfidf(file: Path) -> Judging:
    """The words of a command line for that."""
    return Judging(pairs=(str(file),), surrogate="tfidf")


def judged(
    folder: Path,
    queries: list[list[float]],
    documents: list[list[float]],
    texts: list[tuple[str, str]] | None = None,
) -> JudgedPairs:
    """Pairs with vectors made by hand."""
    texts = texts or [(f"q{i}", f"d{i}") for i in range(len(queries))]
    pairs = write_pairs([Pair(query, document) for query, document in texts], folder / "pairs")
    sides = (np.array(side, np.float32) for side in (queries, documents))
    none = np.zeros((0, len(queries[0])), np.float32)
    return JudgedPairs(pairs, PairVectors(*sides, none, "by hand"), Recipe())
