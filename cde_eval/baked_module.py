"""A contextual encoder with its context built in, as a module of sentence-transformers.

    cde-eval bake ──▶ DIR ──▶ SentenceTransformer(DIR, trust_remote_code=True).encode(texts)

The corpus was read when the model was baked, so the folder holds the second stage and the context
vectors; the first stage, half of the weights, stays behind. Texts and prompts are joined and cut as
the model's own reader does it, so that the vectors are those of the two-stage model.

sentence-transformers finds the class by its dotted path in modules.json and, since version 6, asks
for `trust_remote_code=True` before it imports any class that is not its own, installed or not. A
baked folder holds no code; `load_baked` loads it without the flag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule, Normalize
from torch import Tensor

from cde_core.model.checkpoint import fill, reader_for, save, without_weights
from cde_core.model.config import ContextualConfig, from_dict
from cde_core.model.context import Context
from cde_core.model.contextual import ContextualEncoder, Prepared
from cde_core.model.encode import TextEncoder
from cde_core.model.hub import read_json, read_tensors
from cde_core.tokens import TextReader, load_tokenizer, pad

CONTEXT_FILE = "context.safetensors"


class BakedEncoder(InputModule):
    """Second stage, context and tokenizer; its weights are frozen."""

    save_in_root = False  # a config.json in the root would be taken for a model to give context to

    def __init__(self, model: ContextualEncoder, reader: TextReader, context: Context) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model = model.eval().requires_grad_(False)
        self.reader = reader
        self.tokenizer = reader.tokenizer
        self.context = context
        self._prepared: Prepared | None = None

    @classmethod
    def from_two_stages(cls, encoder: TextEncoder, context: Context) -> BakedEncoder:
        """A copy of the second stage of `encoder`, which keeps its own, with `context`."""
        assert isinstance(encoder.model, ContextualEncoder)
        weights = encoder.model.state_dict()
        model = _second_stage(encoder.model.config, weights, where=encoder.name)
        return cls(model, encoder.reader, context)

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Tensor | Any]:
        """Token ids (B, S) of the texts with their prompt, and a mask (B, S) where they differ."""
        ids, mask = pad(self.reader.read(inputs, prompt or ""))
        return {"input_ids": ids} if mask is None else {"input_ids": ids, "attention_mask": mask}

    def forward(self, features: dict[str, Tensor | Any], **kwargs: Any) -> dict[str, Tensor | Any]:
        """Add vectors (B, h), not normalised, as `sentence_embedding`."""
        ids, mask = features["input_ids"], features.get("attention_mask")
        features["sentence_embedding"] = self.model(ids, mask, self._prepare())
        return features

    def _prepare(self) -> Prepared:
        """The context in the form of the second stage; made anew when the weights have moved."""
        weight, ready = self.model.backbone.words.weight, self._prepared
        if ready and (ready.rows.device, ready.rows.dtype) == (weight.device, weight.dtype):
            return ready
        # Whether there are too many was settled when they were read.
        self._prepared = self.model.prepare(self.context.vectors, allow_more=True)
        return self._prepared

    @property
    def max_seq_length(self) -> int:
        """Tokens read of a text, prompt and special tokens included."""
        return self.reader.max_length

    @max_seq_length.setter
    def max_seq_length(self, tokens: int) -> None:
        cut = self.model.config.characters_per_token
        self.reader = TextReader(self.reader.tokenizer, max_length=tokens, characters_per_token=cut)
        self.tokenizer = self.reader.tokenizer

    def get_embedding_dimension(self) -> int:
        """Width of the vectors."""
        return self.model.config.second.hidden

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write config.json, model.safetensors, tokenizer.json and context.safetensors."""
        folder = save(TextEncoder(self.model, self.reader), output_path)
        self.context.save(folder / CONTEXT_FILE)

    @classmethod
    def load(  # type: ignore[override]
        cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any
    ) -> BakedEncoder:
        """Read what `save` wrote, from a folder or the hub.

        Raises:
            ModelError: If a file or tensor is missing.
            ContextError: If the context is.
        """
        hub = ("token", "cache_folder", "revision", "local_files_only")
        where = {name: kwargs[name] for name in hub if name in kwargs}
        folder = Path(cls.load_dir_path(model_name_or_path, subfolder, **where) or subfolder)
        config = from_dict(ContextualConfig, read_json(folder / "config.json")["model"])
        model = _second_stage(config, read_tensors(folder), where=str(folder))
        dtype = (kwargs.get("model_kwargs") or {}).get("dtype")
        if isinstance(dtype, torch.dtype):
            model = model.to(dtype)
        reader = reader_for(config, load_tokenizer([folder]))
        return cls(model, reader, Context.load(folder / CONTEXT_FILE))


def _second_stage(
    config: ContextualConfig, weights: Mapping[str, Tensor], *, where: str
) -> ContextualEncoder:
    """A contextual encoder that cannot read a corpus any more, with copies of the weights."""
    model: ContextualEncoder = without_weights(config)
    del model.first_stage
    kept = {name: w for name, w in weights.items() if not name.startswith("first_stage.")}
    fill(model, kept, where=where)
    return model


def as_pipeline(
    module: BakedEncoder,
    *,
    prompts: dict[str, str],
    default_prompt_name: str | None,
    device: str | None = None,
) -> SentenceTransformer:
    """The module as a sentence-transformers model that gives unit vectors."""
    return SentenceTransformer(
        modules=[module, Normalize()],
        prompts=prompts,
        default_prompt_name=default_prompt_name,
        similarity_fn_name="cosine",
        device=device,
    )


def is_baked(folder: str | Path) -> bool:
    """Whether a folder holds a baked contextual encoder, which only this module can load."""
    file = Path(folder) / "modules.json"
    ours = f'"{BakedEncoder.__module__}.{BakedEncoder.__name__}"'
    return file.is_file() and ours in file.read_text(encoding="utf-8")


def load_baked(folder: str | Path, *, device: str | None = None) -> SentenceTransformer:
    """Load a baked contextual encoder without `trust_remote_code`; nothing there is executed.

    Raises:
        ModelError: If a file or tensor is missing.
    """
    saved = read_json(Path(folder) / "config_sentence_transformers.json")
    return as_pipeline(
        BakedEncoder.load(str(folder), subfolder=f"0_{BakedEncoder.__name__}"),
        prompts=saved["prompts"],
        default_prompt_name=saved["default_prompt_name"],
        device=device,
    )
