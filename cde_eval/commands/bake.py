"""`cde-eval bake`: a model and the context it has read, in one folder that only needs `encode`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cde_eval.commands.devices import device_named


def bake(
    model: str,
    corpus: Path,
    out: Path,
    size: int | None = None,
    seed: int = 42,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> None:
    """Read a sample of a corpus, and write the model that has read it: a folder for `encode`.

    Folders of centred: and whitened: models load with sentence-transformers alone, those of
    contextual transformers where this package is installed too; README.md in the folder says how.

    Args:
        model: A contextual checkpoint, or centred: or whitened: with a model.
        corpus: Text file (a document a line), JSONL file with a `text` field, or BEIR folder.
        out: Folder to write; new or empty.
        size: Documents to draw; by default as many as the model reads by itself.
        seed: Seed of the draw.
        device: Where to compute: auto, cpu, cuda, cuda:1, mps.
        dtype: Precision that the weights are written in.
    """
    from cde_eval.bake import bake
    from cde_eval.encoders import LoadOptions

    options = LoadOptions(device=device_named(device), dtype=dtype)
    print(f"Baked: {bake(model, corpus, out, size=size, seed=seed, options=options)}")
