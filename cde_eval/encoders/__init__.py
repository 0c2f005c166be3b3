"""Encoders and how they are found: the protocol, the registry, and our own plug-ins."""

from cde_eval.encoders.protocol import Encoder, Ranker, Ranking, Vectors
from cde_eval.encoders.registry import LoadOptions, encoder_kinds, load_encoder

__all__ = [
    "Encoder",
    "LoadOptions",
    "Ranker",
    "Ranking",
    "Vectors",
    "encoder_kinds",
    "load_encoder",
]
