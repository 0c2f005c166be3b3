"""What a user waits for: `cde-eval mteb` with MiniLM against mteb's own evaluation of it.

Each is a process of its own, from start to end, one after the other on the same task.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.report import Row, median_of

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TASKS = {
    "STSBenchmark": ["--data", str(DATA / "mteb")],
    "AmazonCounterfactualClassification": ["--data", str(DATA / "mteb")],
    "cranfield": ["--data", str(DATA / "beir")],
    "DocsNumpy": [],
}

THROUGH_MTEB = """
import sys
import mteb
from pathlib import Path
from sentence_transformers import SentenceTransformer
from cde_eval.encoders.minilm import find_folder
from cde_eval.tasks.catalogue import find_tasks

(source,) = find_tasks([sys.argv[1]], data=[Path(folder) for folder in sys.argv[3:]])
model = SentenceTransformer(str(find_folder()), device="cpu")
result = mteb.evaluate(model, source.make(), cache=None, show_progress_bar=False)
print(result.task_results[0].get_score())
"""


def run() -> list[Row]:
    rows = []
    for task, data in TASKS.items():
        if data and not Path(data[1]).is_dir():
            continue
        ours, theirs = [], []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as output:
                command = ["cde_eval.cli", "mteb", "--model", "minilm", "--tasks", task, *data]
                ours.append(_seconds("-m", *command, "--device", "cpu", "--output", output))
            theirs.append(_seconds("-c", THROUGH_MTEB, task, *data))
        rows.append(
            Row(
                f"whole evaluation of MiniLM on {task}, as a process",
                peer="mteb",
                ratio=median_of(theirs, ours),
                wanted=1.0,
                detail=f"{min(ours):.1f} s against {min(theirs):.1f} s",
            )
        )
    return rows


def _seconds(*arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - started
