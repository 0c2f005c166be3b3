"""Put an encoder and its context into one folder that only needs `encode`.

    corpus ──▶ draw ──▶ read_context ─┐
                                      ├──▶ DIR ──▶ SentenceTransformer(DIR).encode(texts)
              model ──────────────────┘

A vector database calls `encode` and knows no context. A corpus changes slowly, so its context can
be read once and travel with the weights. Two kinds of models can be baked:

- `centred:` and `whitened:` models become a pipeline of sentence-transformers' own modules: base →
  unit length → Dense (minus the mean) → Dense (whitening) → unit length. Whoever loads it needs
  nothing of ours.
- Contextual transformers become a `BakedEncoder`, which needs this package where it is loaded.

Either gives the vectors of the two-stage model at unit length. `context.json` in the folder says
which documents were read, and README.md how to load it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cde_core.errors import CdeError, ModelError
from cde_core.model.encode import DOCUMENT, QUERY, TextEncoder
from cde_core.text import SYMMETRIC_SEARCHES, Purpose
from cde_eval.contexts import Sample, draw_sample, file_documents
from cde_eval.encoders import Encoder, LoadOptions, load_encoder
from cde_eval.encoders.biencoder import Biencoder
from cde_eval.encoders.cde import Cde
from cde_eval.encoders.centred import Centre, Centred
from cde_eval.protocols import PAPER
from cde_eval.vectors import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense

DEFAULT_PROMPT = "document"
"""Prompt of a plain `encode`, where the model has prompts: a database encodes documents."""

ONE_SIDED_TYPES = (
    "BitextMining",
    "Classification",
    "Clustering",
    "InstructionReranking",
    "MultilabelClassification",
    "PairClassification",
    "Regression",
    "Reranking",
    "STS",
    "Summarization",
)
"""MTEB task types whose prefix does not tell queries from documents."""


def bake(
    model: str,
    corpus: Path,
    out: Path,
    *,
    size: int | None = None,
    seed: int = 42,
    options: LoadOptions | None = None,
) -> Path:
    """Read a sample of a corpus and write the model that has read it.

    Args:
        model: A contextual checkpoint, or `centred:` or `whitened:` with a model.
        corpus: Text file (a document a line), JSONL file with a `text` field, or BEIR folder.
        out: Folder to write, whole or not at all; new or empty.
        size: Documents to draw; None for as many as the model reads by itself.
        seed: Seed of the draw.
        options: Device, and the precision that the weights are written in (float32 by default).

    Raises:
        CdeError: If `out` holds something, `size` is below 1, the corpus cannot be read, or the
            model cannot be baked.
    """
    out = out.expanduser().resolve()
    _require_free(out)
    if size is not None and size < 1:
        raise CdeError(f"A context of {size} documents cannot be drawn; give --size from 1.")
    documents = file_documents(corpus)
    encoder = load_encoder(model, options or LoadOptions())
    _require_context(encoder)
    if size is None:  # a corpus smaller than the model's context is read whole, each document once
        size = min(encoder.context_size or len(documents), len(documents))
    source = f"file:{corpus}"
    sample = draw_sample(documents, size, source=source, key="bake", seed=seed, protocol=PAPER)
    baked = _baked(encoder, sample)
    with _whole_or_not_at_all(out) as folder:
        baked.save_pretrained(str(folder), create_model_card=False)
        about = _provenance(model, encoder, sample)
        text = json.dumps(about, indent=2, ensure_ascii=False)
        (folder / "context.json").write_text(text + "\n", encoding="utf-8")
        (folder / "README.md").write_text(
            _readme(f"path/to/{out.name}", about, baked), encoding="utf-8"
        )
    return out


def _baked(encoder: Encoder, sample: Sample) -> SentenceTransformer:
    if isinstance(encoder, Cde):
        return bake_contextual(encoder.model, sample)
    if isinstance(encoder, Centred) and isinstance(encoder.base, Biencoder):
        centre = encoder.read_context(sample.documents, purpose=DOCUMENT)
        return bake_centre(encoder.base.model, centre)
    raise ModelError(
        f"{encoder.name} cannot be baked; contextual transformers can, and centred: or whitened: "
        "with a model that sentence-transformers loads."
    )


def bake_contextual(encoder: TextEncoder, sample: Sample) -> SentenceTransformer:
    """The second stage with the sample as its context; the prefixes of tasks become prompts."""
    from cde_eval.baked_module import BakedEncoder, as_pipeline

    context = encoder.read_context(sample.documents, source=sample.source, allow_more=True)
    prompts = prompts_of(encoder)
    return as_pipeline(
        BakedEncoder.from_two_stages(encoder, context),
        prompts=prompts,
        default_prompt_name=DEFAULT_PROMPT if prompts[DEFAULT_PROMPT] else None,
        device=str(encoder.device),
    )


def prompts_of(encoder: TextEncoder) -> dict[str, str]:
    """The model's prefixes under the names by which `encode_query`, `encode_document` and mteb ask.

    mteb, and `cde-eval mteb`, look for a task's name and role first, then for its type.
    """
    named = {"query": QUERY, DEFAULT_PROMPT: DOCUMENT}
    named |= {kind: Purpose(kind) for kind in ONE_SIDED_TYPES}
    named |= {
        f"{task}-document": Purpose("Retrieval", "document", task)
        for task in sorted(SYMMETRIC_SEARCHES)
    }
    prompts = {name: encoder.prefix(purpose) for name, purpose in named.items()}
    return prompts if any(prompts.values()) else {"query": "", DEFAULT_PROMPT: ""}


def bake_centre(base: SentenceTransformer, centre: Centre) -> SentenceTransformer:
    """The base model's own modules, followed by ones that see its vectors from the centre."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize

    modules: Any = OrderedDict(base.named_children())
    modules["unit_length"] = Normalize()  # the mean was taken over unit vectors
    modules["centre"] = _dense(np.eye(len(centre.mean), dtype=np.float32), bias=-centre.mean)
    # A map of its own: x W − mean W would lose in rounding what (x − mean) W keeps.
    if centre.whitening is not None:
        modules["whitening"] = _dense(centre.whitening)
    modules["unit_length_again"] = Normalize()
    baked = SentenceTransformer(
        modules=modules,
        prompts={name: prompt or "" for name, prompt in base.prompts.items()},
        default_prompt_name=base.default_prompt_name,
        similarity_fn_name="cosine",
        device=str(base.device),
    )
    baked.module_kwargs = base.module_kwargs
    return baked


def _dense(matrix: Vectors, bias: Vectors | None = None) -> Dense:
    """The map x ↦ x · matrix + bias."""
    from sentence_transformers.base.modules import Dense

    width_in, width_out = matrix.shape
    return Dense(
        width_in,
        width_out,
        bias=bias is not None,
        activation_function=torch.nn.Identity(),
        init_weight=_tensor(matrix.T),
        init_bias=None if bias is None else _tensor(bias),
    )


def _tensor(values: Vectors) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32, order="C"))


def _require_free(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise CdeError(f"{out} exists already; remove it, or choose another folder with --out.")


def _require_context(encoder: Encoder) -> None:
    if encoder.context_size == 0:
        raise ModelError(
            f"{encoder.name} reads no context, so there is nothing to bake; use it as it is, or "
            "put centred: in front of it."
        )


@contextmanager
def _whole_or_not_at_all(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out` if all goes well and vanishes if not."""
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.unfinished")
    unfinished.mkdir()
    try:
        yield unfinished
        unfinished.replace(out)  # an empty folder of that name gives way
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _provenance(model: str, encoder: Encoder, sample: Sample) -> dict[str, Any]:
    record = sample.record()
    return {
        "model": model,
        "name": encoder.name,
        "revision": encoder.revision,
        "settings": encoder.settings,
        "size": record.pop("documents"),
        **record,
        "protocol": PAPER.name,
        "baked_by": f"cde-eval {version('cde-eval')}",
    }


def _readme(place: str, about: dict[str, Any], baked: SentenceTransformer) -> str:
    ours = any(type(module).__module__.startswith("cde_eval.") for module in baked.children())
    needs, flag = ("`sentence-transformers`", "")
    if ours:
        needs, flag = ("`sentence-transformers` and `cde-eval`", ", trust_remote_code=True")
    default = baked.default_prompt_name
    plain = f'embeds as "{default}"' if default else "adds no prompt"
    lines = [
        f"# {about['name']}, with its context",
        "",
        f"{about['model']} has read {about['size']} of {about['pool']} documents of "
        f"{about['source']} (seed {about['seed']}); `context.json` records the draw.",
        f"Needs {needs}; gives unit vectors, to be compared by dot product or cosine.",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        f'model = SentenceTransformer("{place}"{flag})',
        "documents = model.encode_document(texts)",
        "queries = model.encode_query(questions)",
        "```",
        "",
        f"A plain `model.encode(texts)` {plain}.",
    ]
    if ours:
        lines += [
            "",
            "sentence-transformers asks for the flag since the folder names a class of `cde_eval`; "
            "the folder itself holds no code. Without the flag: "
            f'`cde_eval.baked_module.load_baked("{place}")`.',
        ]
    return "\n".join(lines) + "\n"
