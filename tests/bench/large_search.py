"""Exact search in a million documents: ours against faiss's flat index, and the memory it takes.

1,000 queries, 1,000,000 documents of 384 dimensions, k = 1,000, on the same arrays; making the
vectors and faiss's index is not timed. Memory is measured in a fresh process: the most that it ever
held, less what that was before the search.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from cde_eval.search import nearest
from cde_eval.vectors import Vectors
from tests.bench.report import Row, median_of

DOCUMENTS, QUERIES, DIM, K = 1_000_000, 1_000, 384, 1_000
GIB = 2**30


def vectors() -> tuple[Vectors, Vectors]:
    """Unit vectors, each query near one document."""
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((DOCUMENTS, DIM), dtype=np.float32)
    queries = documents[:QUERIES] + 3 * rng.standard_normal((QUERIES, DIM), dtype=np.float32)
    for some in (documents, queries):
        some /= np.linalg.norm(some, axis=1, keepdims=True)
    return queries, documents


def most_held() -> int:
    """Bytes of this program alone; `ru_maxrss` would begin with those of who started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def print_peak(queries_at: str, documents_at: str) -> None:
    """Print the bytes that a search takes above its arrays."""
    queries, documents = np.load(queries_at), np.load(documents_at)
    before = most_held()
    nearest(queries, documents, K)
    print(most_held() - before)


def peak(queries_at: Path, documents_at: Path) -> int:
    command = [sys.executable, "-m", "tests.bench.large_search", queries_at, documents_at]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run() -> list[Row]:
    queries, documents = vectors()
    index = faiss.IndexFlatIP(DIM)
    index.add(documents)
    seconds: dict[str, list[float]] = {"ours": [], "faiss": [], "half": []}
    with tempfile.TemporaryDirectory() as folder:
        queries_at, half_at = Path(folder, "queries.npy"), Path(folder, "half.npy")
        documents_at = Path(folder, "documents.npy")
        np.save(queries_at, queries)
        np.save(documents_at, documents)
        np.save(half_at, documents.astype(np.float16))
        mapped = np.load(half_at, mmap_mode="r")
        for _ in range(3):
            started = time.perf_counter()
            ours = nearest(queries, documents, K)
            seconds["ours"].append(time.perf_counter() - started)
            started = time.perf_counter()
            _, rows = index.search(queries, K)
            seconds["faiss"].append(time.perf_counter() - started)
            started = time.perf_counter()
            nearest(queries, mapped, K)
            seconds["half"].append(time.perf_counter() - started)
        same = float((ours.rows == rows).mean())  # the rest are scores that differ in the last bit
        assert same > 0.99, same
        del index, documents, mapped  # the fresh process needs the room
        most = peak(queries_at, documents_at)
    size = "1M x 384, 1000 queries, k = 1000"
    return [
        Row(
            f"exact search, {size}",
            peer="faiss IndexFlatIP",
            ratio=median_of(seconds["faiss"], seconds["ours"]),
            wanted=0.91,
            detail=f"{min(seconds['ours']):.2f} s against {min(seconds['faiss']):.2f} s, "
            f"{same:.2%} of places alike",
        ),
        Row(
            "the same from a memory-mapped file in float16",
            peer="faiss IndexFlatIP",
            ratio=median_of(seconds["faiss"], seconds["half"]),
            wanted=0.5,
            detail=f"{min(seconds['half']):.2f} s against {min(seconds['faiss']):.2f} s",
        ),
        Row(
            "memory above the arrays, 2 GiB over what it takes",
            peer="2 GiB",
            ratio=2 * GIB / most,
            wanted=1.0,
            detail=f"{most / GIB:.2f} GiB",
        ),
    ]


if __name__ == "__main__":
    print_peak(*sys.argv[1:])
