"""A cross-encoder: a transformer that reads query and document together and gives one number.

    queries, documents ──▶ [CLS] query [SEP] document [SEP] ──▶ batches of like length ──▶ logits

It sees both texts at once and is the better judge for it, at the price of a pass per pair, so it
teaches and does not search. Any sequence classifier of transformers with one label is one, from a
folder or the hub. The logit is taken as it is: where the model's own library would put it through a
sigmoid, most of the differences between good documents would be lost in the rounding.

Source: Nogueira and Cho (2019), https://arxiv.org/abs/1901.04085; equals sentence-transformers'
CrossEncoder with the identity as activation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cde_core.errors import ConfigError, ModelError
from cde_core.model.hub import WANTED, folder_of, read_json
from cde_core.text import token_budget_batches
from cde_core.train.batching.surrogates import Progress, digest_of_parts
from cde_core.train.rivals.judges import digest_to_the_bit

TOKENS_AT_ONCE = 8_192
"""In a batch, padding included."""

UNLIMITED = 1_000_000
"""Tokenizers that know of no limit give a number beyond this."""

FILES = [*WANTED, "model-*.safetensors", "merges.txt", "*.model"]
"""What is fetched of a cross-encoder: weights in several files too, and older tokenizers."""


class CrossEncoder:
    """One logit per query and document, in float32."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "",
        max_length: int = 0,
        prefixes: tuple[str, str] = ("", ""),
    ) -> None:
        """Take over a model and a tokenizer of transformers.

        Args:
            model: A sequence classifier with one label, on its device.
            tokenizer: Its tokenizer.
            name: What the user calls it.
            max_length: Tokens that it reads of both texts together; 0, or more than it can: as
                many as it can.
            prefixes: Of queries and of documents.
        """
        self._model, self._tokenizer, self._name = model.eval(), tokenizer, name
        longest = _longest(model, tokenizer)
        self._max_length = min(max_length or longest, longest)
        self._prefixes = prefixes
        # Texts are sorted by their tokens and padded afterwards, which it would warn of.
        tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True

    @cached_property
    def fingerprint(self) -> str:
        """Digest of weights, to the last bit, and of how texts are read."""
        config = self._model.config.to_dict()
        for detail in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
            config.pop(detail, None)  # none decides a logit
        words = Tokenizer.from_str(self._tokenizer.backend_tokenizer.to_str())
        words.no_padding()
        words.no_truncation()
        how = [repr(sorted(config.items(), key=str)), words.to_str()]
        limits = [self._max_length, *self._prefixes]
        return digest_of_parts("cross-encoder 1", digest_to_the_bit(self._model), how, limits)

    def score(
        self, queries: Sequence[str], documents: Sequence[str], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """Logits (n,) of texts that belong together; two that come again are read once.

        Args:
            queries: n texts.
            documents: As many.
            progress: Told how many more distinct ones are done.

        Raises:
            ModelError: If a logit is not finite.
        """
        number_of: dict[tuple[str, str], int] = {}
        both = zip(queries, documents, strict=True)
        numbers = [number_of.setdefault(pair, len(number_of)) for pair in both]
        distinct = list(number_of)
        logits = self._logits(distinct, progress) if distinct else np.empty(0)
        broken = np.flatnonzero(~np.isfinite(logits))
        if len(broken):
            raise ModelError(
                f"{self._name or 'The cross-encoder'} gave NaN or infinity for {len(broken)} "
                f"pairs, such as {distinct[broken[0]][0][:60]!r}; name another."
            )
        return logits[numbers]

    @torch.inference_mode()
    def _logits(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None
    ) -> NDArray[np.float64]:
        first, second = self._prefixes
        read = self._tokenizer(
            [first + query for query, _ in pairs],
            [second + document for _, document in pairs],
            truncation=True,
            max_length=self._max_length,
        )
        logits = np.empty(len(pairs))
        lengths = [len(ids) for ids in read["input_ids"]]
        for batch in token_budget_batches(lengths, TOKENS_AT_ONCE):
            some = {name: [column[number] for number in batch] for name, column in read.items()}
            padded = self._tokenizer.pad(some, return_tensors="pt").to(self._model.device)
            logits[batch] = self._model(**padded).logits[:, 0].double().cpu().numpy()
            if progress:
                progress(len(batch))
        return logits


def load_cross_encoder(
    name: str,
    *,
    device: str | None = None,
    max_length: int = 0,
    prefixes: tuple[str, str] | None = None,
) -> CrossEncoder:
    """Load a cross-encoder from a folder, or by its name on the hub.

    Args:
        name: A folder, or ORG/NAME, or ORG/NAME@REVISION.
        device: Where it computes; None: a GPU if there is one.
        max_length: Tokens that it reads of both texts; 0: as many as it can.
        prefixes: Of queries and of documents; None: it reads them bare.

    Raises:
        ConfigError: If it gives more than one number for a pair.
        ModelError: If it is not there, no cross-encoder, or needs code of its own.
    """
    folder = _folder(name)
    _require_one_label(name, read_json(folder / "config.json"))
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    try:
        model, loaded = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, local_files_only=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        said = " ".join((str(error).splitlines() or [""])[0].split())
        raise ModelError(
            f"{name!r} cannot be loaded as a cross-encoder: {said.rstrip('.')}; name one that "
            "transformers loads without code of its own."
        ) from error
    if missing := sorted(loaded["missing_keys"]):
        raise ModelError(
            f"{name!r} lacks the weights {', '.join(missing[:3])}, so its scores would be chance; "
            "name a trained cross-encoder."
        )
    if not tokenizer.is_fast:
        raise ModelError(
            f"{name!r} has no tokenizer that the library tokenizers reads; put its tokenizer.json "
            "beside the model."
        )
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return CrossEncoder(
        model.to(device),
        tokenizer,
        name=name,
        max_length=max_length,
        prefixes=prefixes or ("", ""),
    )


def _folder(name: str) -> Path:
    if not Path(name).expanduser().is_dir() and "@" in name:
        at, _, revision = name.rpartition("@")
        return folder_of(at, revision=revision, wanted=FILES)
    return folder_of(name, wanted=FILES)


def _require_one_label(name: str, config: dict[str, Any]) -> None:
    kinds = [str(kind) for kind in config.get("architectures") or ()]
    if not any(kind.endswith("ForSequenceClassification") for kind in kinds):
        raise ModelError(
            f"{name!r} is no cross-encoder: it is a {' and '.join(kinds) or 'model of no kind'}, "
            "not one ForSequenceClassification. A model whose score is a cosine is named without "
            "'cross-encoder:'."
        )
    labels = len(config.get("id2label") or ()) or int(config.get("num_labels", 2))
    if labels != 1:
        raise ConfigError(
            f"{name!r} gives {labels} numbers for a pair, one for each of its labels, but a "
            "teacher gives one; name a cross-encoder with one label, such as "
            "cross-encoder/ms-marco-MiniLM-L6-v2."
        )


def _longest(model: Any, tokenizer: Any) -> int:
    """Tokens that the model can read; RoBERTa and its kin begin to count after the padding's."""
    limits = []
    if tokenizer.model_max_length < UNLIMITED:
        limits.append(int(tokenizer.model_max_length))
    positions = int(getattr(model.config, "max_position_embeddings", None) or -1)
    if positions > 0:
        table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
        before = getattr(table, "padding_idx", None)
        limits.append(positions if before is None else positions - before - 1)
    return min(limits, default=512)
