"""Encoders and how they are found: the protocol, the registry, and our own plug-ins."""

from cde_eval.encoders.protocol import Encoder, Ranker
from cde_eval.encoders.registry import LoadOptions, encoder_kinds, load_encoder

__all__ = [
    "Encoder",
    "LoadOptions",
    "Ranker",
    "encoder_kinds",
    "load_encoder",
]
