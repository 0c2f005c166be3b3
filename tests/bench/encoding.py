"""Texts per second beside sentence-transformers, and what context costs.

Real documents of mixed lengths where they are at hand, the built-in documentation otherwise.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

import cde_core
from cde_core.model.config import ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.text import Purpose
from cde_eval.encoders import load_encoder
from cde_eval.encoders.minilm import find_folder
from tests.bench.report import Row, median_of

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "data" / "beir" / "nfcorpus"
TEXTS = 64
ROUNDS = 6


def run() -> list[Row]:
    documents = _documents()
    folder = str(find_folder())
    peer = SentenceTransformer(folder, device="cpu")
    plugin, core = load_encoder("minilm"), cde_core.load(folder, device="cpu")
    rows = []
    for name, ours in (
        ("the biencoder plug-in", lambda texts: plugin.encode(texts, purpose=Purpose("STS"))),
        ("cde_core", lambda texts: core.encode(texts)),
    ):
        seconds = _timed(documents, ours, peer.encode)
        what = f"{name} on MiniLM, {TEXTS} documents of mixed lengths"
        rows.append(_row(what, "sentence-transformers", seconds, 1.0))
    return rows + _cost_of_context()


def _documents() -> list[str]:
    if CORPUS.is_dir():
        with (CORPUS / "corpus.jsonl").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [f"{row['title']} {row['text']}" for row in rows]
    from cde_eval.tasks.documentation import load_documentation

    return [pair.document for pair in load_documentation().pairs]


def _timed(texts: list[str], *encoders: Callable[[list[str]], object]) -> list[list[float]]:
    """Seconds of each encoder, in turn on the same texts, new texts every round."""
    seconds: list[list[float]] = [[] for _ in encoders]
    for start in range(0, (ROUNDS + 1) * TEXTS, TEXTS):
        batch = texts[start : start + TEXTS]
        for number, encode in enumerate(encoders):
            started = time.perf_counter()
            encode(batch)
            seconds[number].append(time.perf_counter() - started)
    return [kept[1:] for kept in seconds]  # the first round warms up


def _row(what: str, peer: str, seconds: list[list[float]], wanted: float, size: int = TEXTS) -> Row:
    ours, theirs = seconds
    detail = f"{size / min(ours):.1f} against {size / min(theirs):.1f} texts/s"
    return Row(what, peer, median_of(theirs, ours), wanted, detail)


def _cost_of_context(texts: int = 32, tokens: int = 128) -> list[Row]:
    """6 layers, h = 384, J = 512: prefix attention against no context and against joint."""
    core = cde_core.load(str(find_folder()), device="cpu")
    backbone = core.model.config.backbone
    ids = torch.randint(1000, 20_000, (texts, tokens))
    vectors = torch.randn(512, backbone.hidden)
    calls: dict[str, Callable[[], object]] = {"none": lambda: core.model(ids)}
    # Pooling over the context needs all its rows in the last layer too: that is the plain layout.
    for name, attention, plain in (
        ("prefix", "prefix", False),
        ("joint", "joint", False),
        ("plain", "joint", True),
    ):
        config = ContextualConfig(
            first=backbone, second=backbone, context_attention=attention, pool_context=plain
        )
        model = ContextualEncoder(config).eval()
        with torch.inference_mode():
            prepared = model.prepare(vectors)
        calls[name] = lambda model=model, prepared=prepared: model(ids, None, prepared)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with torch.inference_mode():
        for _ in range(4):
            for name, call in calls.items():
                started = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - started)
    shape = f"6 layers, h = {backbone.hidden}, J = 512, {tokens}-token texts"
    none, prefix, joint, plain = (seconds[name][1:] for name in calls)
    return [
        _row(f"prefix attention, {shape}", "the same, no context", [prefix, none], 1 / 1.35, texts),
        _row(f"prefix attention, {shape}", "joint attention", [prefix, joint], 3.0, texts),
        _row(f"joint attention, {shape}", "the plain layout", [joint, plain], 1.0, texts),
    ]
