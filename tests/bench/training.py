"""Training steps: ours against sentence-transformers' cached loss; what two stages cost; memory.

Steps are whole: texts in, tokenised, gradients, clipped, AdamW; float32, all-MiniLM-L6-v2, 64
tokens, batches of 128 documentation pairs, 64 texts at a time. Memory is the most that a process
held in a step, of one layer and short texts: the shape of the curve is asked for, not its height.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from cde_core.model.encode import TextEncoder
from cde_core.recipe import ModelConfig
from cde_core.train.batching.batches import plan_batch, texts_of
from cde_core.train.batching.filtering import Filter
from cde_core.train.data.pairs import Pair, Pairs, write_pairs
from cde_core.train.gradients import HowToCompute, batch_gradient
from cde_core.train.objectives.contrastive import Contrastive
from cde_core.train.optimiser import clip_gradients, make_optimiser
from cde_core.train.starting_model import starting_model
from tests.bench.report import Row, median_of

BATCH, LENGTH, TEXTS_AT_ONCE, ROUNDS = 128, 64, 64, 3
SMALL, LARGE = 256, 4096

Step = Callable[[int], None]
"""Train on the batch of a number."""


def model(kind: str, attention: str = "prefix", layers: int = 0) -> TextEncoder:
    settings = ModelConfig(kind=kind, attention=attention, max_length=LENGTH, layers=layers)  # type: ignore[arg-type]
    encoder = starting_model(settings, temperature=0.02, seed=0)
    encoder.model.train()
    return encoder


def our_step(encoder: TextEncoder, pairs: Pairs, batch: int = BATCH) -> Step:
    optimiser = make_optimiser(encoder.model, learning_rate=2e-5)
    how = HowToCompute(tokens_at_once=TEXTS_AT_ONCE * LENGTH)

    def step(number: int) -> None:
        rows = np.arange(batch) + number * batch
        plan = plan_batch(rows, pairs, step=number, seed=0, context_documents=encoder.context_size)
        texts = texts_of(plan, pairs, {})
        optimiser.zero_grad(set_to_none=True)
        masks = Filter(duplicates=False).masks(plan, texts)
        batch_gradient(encoder, plan, texts, masks, objective=Contrastive(0.02), how=how)
        clip_gradients(encoder.model.parameters(), 1.0)
        optimiser.step()

    return step


def their_step(pairs: Pairs) -> Step:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import CachedMultipleNegativesRankingLoss

    from cde_eval.encoders.minilm import find_folder

    encoder = SentenceTransformer(str(find_folder()), device="cpu")
    encoder.max_seq_length = LENGTH
    loss = CachedMultipleNegativesRankingLoss(encoder, scale=50.0, mini_batch_size=TEXTS_AT_ONCE)
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=2e-5)
    encoder.train()

    def step(number: int) -> None:
        rows = np.arange(BATCH) + number * BATCH
        sides = [
            ["search_query: " + text for text in pairs.queries(rows)],
            ["search_document: " + text for text in pairs.documents(rows)],
        ]
        features = [encoder.preprocess(side) for side in sides]
        optimiser.zero_grad(set_to_none=True)
        loss(features, torch.empty(0)).backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimiser.step()

    return step


def seconds(step: Step, number: int) -> float:
    started = time.perf_counter()
    step(number)
    return time.perf_counter() - started


def memory_of_a_step(batch: int) -> tuple[float, float]:
    """MiB before and at the peak of a step of `batch` pairs, in a process of its own (Linux)."""
    command = [sys.executable, "-m", "tests.bench.training", str(batch)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    before, peak = done.stdout.split()[-2:]
    return float(before), float(peak)


def mebibytes(what: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) / 1024


def one_step_of(batch: int) -> None:
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(["sun", "rain", "river", "bread", "law", "court"], size=14))

    with TemporaryDirectory() as folder:
        pairs = write_pairs((Pair(text(), text()) for _ in range(LARGE)), Path(folder) / "pairs")
        encoder = model("contextual", layers=1)
        our_step(encoder, pairs, 64)(0)  # the optimiser's memory, and the libraries'
        before = mebibytes("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        our_step(encoder, pairs, batch)(0)
        print(before, mebibytes("VmHWM"))


def run() -> list[Row]:
    from cde_eval.for_training import documentation_pairs

    with TemporaryDirectory() as folder:
        offered = documentation_pairs("numpy,scipy").pairs
        pairs = write_pairs(offered, Path(folder) / "pairs")
        steps = {
            "theirs": their_step(pairs),
            "biencoder": our_step(model("biencoder"), pairs),
            "prefix": our_step(model("contextual"), pairs),
            "joint": our_step(model("contextual", "joint"), pairs),
        }
        taken = {
            name: [seconds(step, number) for number in range(ROUNDS + 1)][1:]
            for name, step in steps.items()
        }
    memory = {batch: memory_of_a_step(batch) for batch in (SMALL, LARGE)}
    speed = {name: BATCH / min(times) for name, times in taken.items()}
    return [
        Row(
            "a training step, biencoder, same batch, lengths and chunks",
            peer="sentence-transformers",
            ratio=median_of(taken["theirs"], taken["biencoder"]),
            wanted=1.0,
            detail=f"{speed['biencoder']:.1f} pairs/s against {speed['theirs']:.1f}",
        ),
        *(
            Row(
                f"a training step with two stages, {attention} attention, J = 64",
                peer="biencoder",
                ratio=median_of(taken["biencoder"], taken[attention]),
                wanted=0.0,
                detail=f"{speed[attention]:.1f} pairs/s against {speed['biencoder']:.1f}",
            )
            for attention in ("prefix", "joint")
        ),
        Row(
            f"peak memory of a step, batch {LARGE:,} against {SMALL}",
            peer=f"batch {SMALL}",
            ratio=memory[SMALL][1] / memory[LARGE][1],
            wanted=1 / 1.1,
            detail=" against ".join(
                f"{peak:.0f} MiB, {peak - before:.0f} of them the step's"
                for before, peak in (memory[LARGE], memory[SMALL])
            ),
        ),
    ]


if __name__ == "__main__":
    one_step_of(int(sys.argv[1]))
