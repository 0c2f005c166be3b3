"""Who says which documents are near a query: a surrogate, or a model as it will be used.

    "minilm", a folder, "tfidf", "encoder:NAME" ──▶ judge_named ──▶ Judge ──of(group)──▶ Surrogate

A surrogate for clusters reads bare texts. A judge ranks answers, so a model reads here as it does
when it is evaluated: with its own prefixes or with those that are given (E5's "query: " and
"passage: "), and, if it is contextual, in the context of documents of the group. An encoder of
cde-eval has the prompts that it comes with.

Source: Wang et al. (2022), E5, section 3 and appendix A, https://arxiv.org/abs/2212.03533
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cde_core.errors import ConfigError
from cde_core.model.config import to_dict
from cde_core.model.context import Context
from cde_core.model.encode import DOCUMENT, TextEncoder
from cde_core.text import Purpose
from cde_core.tokens import TextReader
from cde_core.train.batching.batches import prefixes_of
from cde_core.train.batching.surrogate_kinds import is_model, surrogate_named
from cde_core.train.batching.surrogates import Side, Surrogate, digest_of_parts
from cde_core.train.data.pairs import Pairs
from cde_core.train.rivals.groups import Group

Prefixes = Mapping[str, tuple[str, str]]
"""Prefix of queries and prefix of documents by domain; "*" is every other domain."""


class Judge(Protocol):
    """Whatever embeds the texts of a group."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its vectors, beside the group."""

    def of(self, group: Group) -> Surrogate:
        """What embeds this group; asked for only where something is yet to be embedded."""


@dataclass(frozen=True, slots=True)
class SurrogateJudge:
    """A surrogate, which reads every group alike."""

    surrogate: Surrogate

    @property
    def fingerprint(self) -> str:
        """The surrogate's."""
        return self.surrogate.fingerprint

    def of(self, group: Group) -> Surrogate:
        """The surrogate."""
        return self.surrogate


class ModelJudge:
    """A model of this package with its prefixes, in the context of each group."""

    def __init__(
        self,
        encoder: TextEncoder,
        *,
        prefixes: Prefixes | None = None,
        max_length: int = 0,
        seed: int = 0,
    ) -> None:
        """Take a model over, which is set to evaluation.

        Args:
            encoder: The model.
            prefixes: By domain; those of search for domains that are not named. None: those of
                search if the model has prefixes, else none.
            max_length: Tokens that it reads of a text; 0, or more than it can: as many as it can.
            seed: Of the draw of context documents.
        """
        if prefixes is None and encoder.model.config.prefixes:
            prefixes = {}
        self._encoder = _BareTexts(
            encoder.model, _shortened(encoder.reader, max_length), name=encoder.name
        )
        self._prefixes, self._seed = prefixes, seed

    @cached_property
    def fingerprint(self) -> str:
        """Digest of weights, to the last bit, and of how texts are read.

        Between two epochs weights may move by less than bfloat16 shows.
        """
        model, reader = self._encoder.model, self._encoder.reader
        shape = to_dict(model.config)
        for name in ("backbone_name", "logit_scale"):  # neither decides a vector
            shape.pop(name, None)
        limits = [reader.max_length, reader.characters]
        prefixes = None if self._prefixes is None else sorted(self._prefixes.items())
        how = [shape, limits, reader.tokenizer.to_str(), prefixes, self._seed]
        return digest_of_parts("model judge 1", digest_to_the_bit(model), how)

    def of(self, group: Group) -> Surrogate:
        """The model with the prefixes of the group's domain, once it has read some documents."""
        prefixes = prefixes_of(group.domain, self._prefixes)
        return _InContext(self._encoder, prefixes, self._context(group, prefixes[1]))

    def _context(self, group: Group, prefix: str) -> Context | None:
        size, documents = self._encoder.context_size, len(group.first_document)
        if not size:
            return None
        rng = np.random.default_rng((self._seed, group.number))
        drawn = np.sort(rng.choice(documents, min(size, documents), replace=False))
        texts = [prefix + text for text in group.documents(drawn)]
        return self._encoder.read_context(texts, purpose=DOCUMENT, keep=False)


@dataclass(frozen=True, slots=True)
class _InContext:
    """A model, the prefixes of a domain, and what it has read of it."""

    encoder: TextEncoder
    prefixes: tuple[str, str]
    context: Context | None
    fingerprint: str = ""

    def encode(self, texts: Sequence[str], side: Side) -> NDArray[np.float32]:
        prefix = self.prefixes[side == "document"]
        return self.encoder.encode([prefix + text for text in texts], context=self.context)


class _BareTexts(TextEncoder):
    """A model whose texts carry their prefixes already."""

    def prefix(self, purpose: Purpose | None) -> str:
        return ""


def judge_named(
    name: str,
    *,
    pairs: Pairs,
    device: str | None = None,
    prefixes: tuple[str, str] | None = None,
    max_length: int = 0,
    seed: int = 0,
) -> Judge:
    """Find a judge by the name of a surrogate or model.

    Args:
        name: As `surrogate_named` takes it.
        pairs: What TF-IDF is fitted on.
        device: Where a model computes; None: a GPU if there is one.
        prefixes: Of queries and of documents; None: the model's own.
        max_length: Tokens that a model reads of a text; 0: as many as it can.
        seed: Of the draw of context documents.

    Raises:
        ConfigError: If there is no such plug-in, or it cannot read texts as is asked.
        ModelError: If it is not a model.
    """
    if not is_model(name):
        if prefixes is not None:
            raise ConfigError(
                f"Prefixes are given, but {name} reads texts as it does; leave --query-prefix and "
                "--document-prefix out, or name a model's folder."
            )
        surrogate = surrogate_named(name, pairs=pairs, device=device, max_length=max_length)
        return SurrogateJudge(surrogate)
    import cde_core

    encoder = cde_core.load(name, device=device, cache=None)
    everywhere = None if prefixes is None else {"*": prefixes}
    return ModelJudge(encoder, prefixes=everywhere, max_length=max_length, seed=seed)


def digest_to_the_bit(model: torch.nn.Module) -> str:
    """Digest of all weights as they are."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()[:32]


def _shortened(reader: TextReader, max_length: int) -> TextReader:
    if not max_length or max_length >= reader.max_length:
        return reader
    per_token = (reader.characters or 0) // reader.max_length
    return TextReader(reader.tokenizer, max_length=max_length, characters_per_token=per_token)
