"""Pairs and judges whose scores can be worked out by hand."""

import functools
import hashlib

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from cde_core.train.batching.surrogates import unit_rows
from cde_core.train.data.pairs import Pair, write_pairs


class ByLetters:
    """A vector of its own for every text; says what it was asked, and can die."""

    def __init__(self, *, dies_after=10**9, noise=0.5):
        self.fingerprint, self.left, self.noise, self.asked = (
            f"letters {noise}",
            dies_after,
            noise,
            [],
        )

    def encode(self, texts, side):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        self.asked += texts
        return unit_rows(np.array([vector_of(text, self.noise) for text in texts]))


@functools.cache
def vector_of(text, noise):
    """Texts of a subject, which is their last word, are near one another."""
    if not text.split():
        return np.zeros(8)
    subject, own = (
        np.random.default_rng(list(hashlib.sha256(part.encode()).digest())).normal(size=8)
        for part in (text.split()[-1], text)
    )
    return subject + noise * own


@pytest.fixture
def letters():
    return ByLetters


@pytest.fixture
def pairs(tmp_path):
    """Two domains that take turns, copies of documents, queries with several answers."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(90):
        subject = f"subject-{number % 12}"
        other = f"subject-{rng.integers(12)}"
        query = f"query {number % 40} {subject}"
        document = f"document {rng.integers(50)} {rng.choice([subject, subject, other])}"
        made.append(Pair(query, document, ("old negative",), "ab"[number % 3 == 0]))
    return write_pairs(made, tmp_path / "pairs")


@pytest.fixture
def classifier(tmp_path):
    """Write a tiny random BERT or RoBERTa that tells classes apart, and give its folder."""

    def build(words, *, labels=1, kind="Bert", positions=24, name="classifier"):
        special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
        vocabulary = {word: number for number, word in enumerate([*special, *words])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        second = "[SEP]" if kind == "Roberta" else "[SEP]:1"  # RoBERTa has one type of token
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair=f"[CLS] $A [SEP] {second.replace('[SEP]', '$B')} {second}",
            special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
        )
        settings = {
            "vocab_size": len(vocabulary),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
            "max_position_embeddings": positions,
            "initializer_range": 0.3,  # logits that differ
            "pad_token_id": 0,
            "type_vocab_size": 1 if kind == "Roberta" else 2,
        }
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(**settings, num_labels=labels)
        model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
        model.save_pretrained(tmp_path / name)
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            **{f"{t}_token": f"[{t.upper()}]" for t in ("pad", "cls", "sep", "unk")},
        ).save_pretrained(tmp_path / name)
        return tmp_path / name

    return build
