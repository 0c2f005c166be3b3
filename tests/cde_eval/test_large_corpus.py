"""A corpus of a million documents in a process that may hold 3 GiB."""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cde_core.text import Purpose
from cde_eval.vectors import Vectors

DIM = 384
LIMIT = 3 * 2**30
QUERIES = 200


class Fast:
    """Vectors out of the number in a text; a query's lies near that of the document it names."""

    name, revision, context_size, similarity = "tests/fast", "1", 0, "cosine"
    task_types, settings = None, {}

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> None: ...

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        numbers = np.array([int(text.split()[1]) for text in texts], dtype=np.uint64)
        mixed = numbers[:, None] * np.uint64(DIM) + np.arange(DIM, dtype=np.uint64)
        for multiplier in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):  # a hash of place and number
            mixed = mixed * np.uint64(multiplier)
            mixed ^= mixed >> np.uint64(31)
        vectors = (mixed >> np.uint64(40)).astype(np.float32) / 2**23 - 1
        if purpose.role == "query":
            vectors[:, ::7] += 0.3
        return vectors

    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str]:
        return {"role": purpose.role}


def write_folder(folder: Path, documents: int) -> None:
    (folder / "qrels").mkdir(parents=True)
    filler = "and what it says about the weather of that day in plain words " * 2
    with (folder / "corpus.jsonl").open("w") as file:
        file.writelines(
            json.dumps({"_id": f"d{i}", "title": "", "text": f"document {i} {filler}"}) + "\n"
            for i in range(documents)
        )
    step = documents // QUERIES
    with (folder / "queries.jsonl").open("w") as file:
        file.writelines(
            json.dumps({"_id": f"q{i}", "text": f"query {i * step}"}) + "\n" for i in range(QUERIES)
        )
    rows = "".join(f"q{i}\td{i * step}\t1\n" for i in range(QUERIES))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)


def evaluate_within(limit: int, folder: Path, output: Path) -> None:
    """What the process with the limit does: evaluate, and print the score and the memory."""
    from cde_eval.contexts import ContextPolicy
    from cde_eval.encoders.kept import kept
    from cde_eval.plan import Evaluation
    from cde_eval.run import evaluate
    from cde_eval.tasks.catalogue import folder_tasks

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    plan = Evaluation(
        models=("fast",),
        tasks=tuple(folder_tasks(folder)),
        policies=(ContextPolicy("none"),),
        loaded={"fast": kept(Fast())},
    )
    (record,) = evaluate(plan, output)
    status = Path("/proc/self/status").read_text()
    held = int(status.split("VmHWM:")[1].split()[0]) / 2**20
    print(json.dumps({"score": record.scores[0].main, "texts": record.texts, "GiB": held}))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
def test_a_million_documents_are_embedded_kept_and_searched_within_3_gib(tmp_path):
    write_folder(tmp_path / "million", 1_000_000)
    code = (
        "import sys; from pathlib import Path; "
        "from tests.cde_eval.test_large_corpus import LIMIT, evaluate_within; "
        "evaluate_within(LIMIT, Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "million"), str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["score"] == 1 and found["texts"] == 1_000_000 + QUERIES
