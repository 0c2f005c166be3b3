"""Decoders as encoders: the last token of a language model has read all the others.

    prefix + text ──▶ tokenise, end with EOS ──▶ decoder ──▶ row of the last token

A causal model's token sees only what comes before it, so the vector of a text is the last layer's
row at an EOS token behind it. Padding stands behind that token and is masked, so that no vector
depends on the texts in its batch, whichever side the model's tokenizer would pad on.

LoRA folders (RepLLaMA is published as one) are merged into the model that they adapt.

Method: Ma et al. (2023), Fine-tuning LLaMA for multi-stage text retrieval (RepLLaMA),
https://arxiv.org/abs/2310.08319
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cde_core.errors import ModelError
from cde_core.text import Purpose, Role, token_budget_batches
from cde_core.tokens import Tokens, pad
from cde_eval.encoders.biencoder import (
    TOKENS_PER_BATCH,
    TOKENS_PER_BATCH_ELSEWHERE,
    folder_revision,
)
from cde_eval.encoders.local_name import local_name
from cde_eval.encoders.protocol import Similarity
from cde_eval.encoders.registry import LoadOptions
from cde_eval.progress import progress_bar
from cde_eval.vectors import Vectors

PREFIXES: dict[Role, str] = {"query": "query: ", "document": "passage: ", "text": "passage: "}
"""As RepLLaMA was trained; a text that stands on no side is read as a passage."""

MAX_LENGTH = 512
"""Tokens read of a text, EOS included; fewer where the model knows fewer positions."""


class Decoder:
    """A decoder with last-token pooling behind the `Encoder` protocol."""

    context_size: int | None = 0
    similarity: Similarity = "cosine"
    task_types: frozenset[str] | None = None

    def __init__(
        self, model: Any, tokenizer: Any, name: str, revision: str, settings: dict[str, str]
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self.revision = revision
        self.settings = settings
        self.max_length = min(
            MAX_LENGTH,
            getattr(model.config, "max_position_embeddings", None) or MAX_LENGTH,
            tokenizer.model_max_length,
        )

    def read_context(self, documents: Sequence[str], *, purpose: Purpose) -> None:
        """Reads nothing: a decoder embeds each text alone."""

    def encode(self, texts: Sequence[str], *, purpose: Purpose, context: Any = None) -> Vectors:
        """Vectors of `texts`, shape (n, dim), float32, not normalised."""
        return self._forward(list(texts), PREFIXES[purpose.role])

    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str]:
        """The prefix."""
        return {"prompt": PREFIXES[purpose.role]}

    def read(self, texts: Sequence[str], prefix: str) -> list[Tokens]:
        """Token ids of every text with its prefix, cut, each ending with EOS."""
        prompted = [prefix + text for text in texts]
        encoded = self.tokenizer(prompted, truncation=True, max_length=self.max_length)
        return [self._ended(ids) for ids in encoded["input_ids"]]

    def _ended(self, ids: list[int]) -> Tokens:
        end = self.tokenizer.eos_token_id
        if not ids or ids[-1] != end:
            ids = [*ids[: self.max_length - 1], end]
        return np.asarray(ids, dtype=np.int32)

    def _forward(self, texts: list[str], prefix: str) -> Vectors:
        device = self.model.device
        budget = TOKENS_PER_BATCH.get(device.type, TOKENS_PER_BATCH_ELSEWHERE)
        tokens = self.read(texts, prefix)
        vectors: list[Any] = [None] * len(texts)
        with torch.inference_mode(), progress_bar(len(texts)) as done:
            for batch in token_budget_batches([len(ids) for ids in tokens], budget):
                rows = self._last_rows([tokens[i] for i in batch])
                for i, row in zip(batch, rows.float().cpu().numpy(), strict=True):
                    vectors[i] = row
                done(len(batch))
        return np.stack(vectors)

    def _last_rows(self, tokens: list[Tokens]) -> Tensor:
        """Rows (B, dim) of the last layer at each text's last token."""
        device = self.model.device
        ids, mask = pad(tokens)
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        rows: Tensor = self.model(
            input_ids=ids.to(device), attention_mask=mask.long().to(device), use_cache=False
        ).last_hidden_state
        last = mask.sum(dim=1).to(device) - 1
        return rows[torch.arange(len(ids), device=device), last]


def load(argument: str, options: LoadOptions) -> Decoder:
    """A language model with last-token pooling, or a LoRA folder of one: decoder:NAME; no context.

    Raises:
        ModelError: If there is no such model, tensors or an EOS token are missing, or it is a LoRA
            folder and peft is not installed.
    """
    if not argument:
        raise ModelError("`decoder` needs a model: decoder:FOLDER or decoder:org/name.")
    settings: dict[str, str] = {} if options.dtype == "float32" else {"dtype": options.dtype}
    try:
        base = adapted_model(argument)
        if base:
            settings["base"] = f"{_name(base)}@{_revision(base, 'config.json')}"
        model = _adapted(argument, base, options) if base else _plain(argument, options)
        tokenizer = _tokenizer(argument, base)
        revision = _revision(argument, "adapter_config.json" if base else "config.json")
    except ModelError:
        raise
    except Exception as error:  # transformers and peft raise many kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise ModelError(
            f"The model {argument!r} does not load: {reason} Give the folder of a decoder, or a "
            "hub name that is downloaded or can be."
        ) from error
    _require_decoder(model, tokenizer, argument)
    return Decoder(model.to(options.device), tokenizer, _name(argument), revision, settings)


def adapted_model(name: str) -> str | None:
    """Model that an adapter (a LoRA folder) was trained on; None if `name` is a whole model."""
    from transformers.utils.peft_utils import find_adapter_config_file

    file = find_adapter_config_file(name)
    if file is None:
        return None
    base = json.loads(Path(file).read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base:
        raise ModelError(f"{file} names no model to adapt; set base_model_name_or_path in it.")
    return str(base)


def _plain(name: str, options: LoadOptions) -> Any:
    from transformers import AutoModel

    auto: Any = AutoModel
    dtype = getattr(torch, options.dtype)
    model, found = auto.from_pretrained(name, dtype=dtype, output_loading_info=True)
    _require_all(found["missing_keys"], name)
    return model


def _adapted(name: str, base: str, options: LoadOptions) -> Any:
    """The base model with the adapter merged into its weights."""
    peft = _peft(name)
    config = peft.PeftConfig.from_pretrained(name)
    if config.is_prompt_learning:
        raise ModelError(f"{name!r} is a {config.peft_type} adapter; `decoder` merges LoRA alone.")
    config.task_type = None  # whatever it was trained for, it gives vectors here
    model = _plain(base, options)
    # Adapters of a model with a head name its layers one level deeper, and may adapt the head.
    deeper = f"base_model.model.{model.base_model_prefix}."
    weights = {
        key.replace(deeper, "base_model.model."): tensor
        for key, tensor in peft.utils.load_peft_weights(name, device="cpu").items()
        if not key.startswith("base_model.model.lm_head.")
    }
    adapted = peft.PeftModel(model, config)
    wanted = peft.utils.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    _require_all(wanted.keys() - weights.keys(), name)
    if unknown := sorted(weights.keys() - wanted.keys()):
        raise ModelError(f"The adapter {name!r} has a tensor that {base!r} lacks: {unknown[0]}.")
    peft.utils.set_peft_model_state_dict(adapted, weights)
    return adapted.merge_and_unload()


def _peft(name: str) -> Any:
    try:
        import peft
    except ImportError:
        raise ModelError(
            f"{name!r} is a LoRA folder, which needs peft: pip install 'cde-eval[lora]'."
        ) from None
    return peft


def _tokenizer(name: str, base: str | None) -> Any:
    """The model's tokenizer; an adapter that brings none uses that of its base."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError):
        if base is None:
            raise
        return AutoTokenizer.from_pretrained(base)


def _require_decoder(model: Any, tokenizer: Any, name: str) -> None:
    if model.config.is_encoder_decoder:
        raise ModelError(f"{name!r} is an encoder with a decoder; `decoder` takes decoders alone.")
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"The tokenizer of {name!r} has no EOS token, whose row is the vector; name one as "
            "eos_token in tokenizer_config.json."
        )


def _require_all(missing: Iterable[str], name: str) -> None:
    if names := sorted(missing):
        raise ModelError(
            f"The model {name!r} lacks {len(names)} tensor(s): {', '.join(names[:3])}"
            f"{', …' if len(names) > 3 else ''}. Restore its weights file."
        )


def _name(model: str) -> str:
    folder = Path(model)
    return local_name(folder) if folder.is_dir() else model


def _revision(model: str, file: str) -> str:
    """Hash of a folder; for a hub name, the commit under which its files lie on disk."""
    if Path(model).is_dir():
        return folder_revision(Path(model))
    from transformers.utils.hub import cached_file

    return Path(str(cached_file(model, file))).parent.name
