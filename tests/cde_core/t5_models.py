"""Tiny T5s as transformers makes and saves them, with weights at which nothing hides."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import T5Config, T5EncoderModel, T5ForConditionalGeneration, T5Model

from tests.cde_core.conftest import shaken

VERSIONS = {
    "1.0": {"feed_forward_proj": "relu"},
    "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}
IDS = torch.tensor([[5, 9, 33, 7, 2, 40, 41, 1], [8, 8, 21, 1, 0, 0, 0, 0]])
MASK = torch.tensor([[True] * 8, [True] * 4 + [False] * 4])


def tiny(version: str, **settings: Any) -> T5Config:
    """A T5 whose heads together are narrower than its rows, as those of t5-v1_1-small are."""
    shape = dict(vocab_size=64, d_model=32, d_kv=6, d_ff=40, num_layers=3, num_decoder_layers=2)
    shape |= {"num_heads": 4, "relative_attention_num_buckets": 8, "decoder_start_token_id": 0}
    shape |= {"relative_attention_max_distance": 20}
    return T5Config(**{**shape, **VERSIONS[version], **settings})


def made(
    kind: type[T5Model] | type[T5EncoderModel] | type[T5ForConditionalGeneration],
    version: str,
    **settings: Any,
) -> Any:
    """A model of transformers with random weights."""
    torch.manual_seed(0)
    return shaken(kind(tiny(version, **settings)), by=0.2)


def saved(model: Any, folder: Path, tokenizer: Tokenizer) -> Path:
    """Its folder, as transformers writes it, with a tokenizer."""
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
