"""What the weights of each family are called in published files, and what they are called here.

    published tensors ──▶ import_backbone ──▶ our tensors ──▶ export_backbone ──▶ published tensors

One table per dialect maps each of our names to the published ones; where we keep one matrix and
they keep several (query, key, value; gate, value), the parts are stacked in the order given.
NomicBERT has two dialects, the authors' and transformers'.

Source: the state dictionaries of transformers' BertModel, NomicBertModel and ModernBertModel, and
of nomic-bert-2048 and cde-small-v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from cde_core.errors import ModelError, did_you_mean
from cde_core.model.config import BackboneConfig, ContextualConfig

Names = dict[str, tuple[str, ...]]
"""From our name to the published parts, stacked along the first dimension."""

_BERT_LAYER: Names = {
    "attention.qkv": tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.out": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feed_forward.up": ("intermediate.dense",),
    "feed_forward.down": ("output.dense",),
    "feed_forward_norm": ("output.LayerNorm",),
}
_NOMIC_LAYER: Names = {
    "attention.qkv": ("attn.Wqkv",),
    "attention.out": ("attn.out_proj",),
    "attention_norm": ("norm1",),
    "feed_forward.up": ("mlp.fc12", "mlp.fc11"),  # fc12 is the gate
    "feed_forward.down": ("mlp.fc2",),
    "feed_forward_norm": ("norm2",),
}
_NOMIC_LAYER_IN_TRANSFORMERS: Names = {
    "attention.qkv": tuple(f"self_attn.{part}_proj" for part in "qkv"),
    "attention.out": ("self_attn.o_proj",),
    "attention_norm": ("post_attention_layernorm",),
    "feed_forward.up": ("mlp.gate_proj", "mlp.up_proj"),
    "feed_forward.down": ("mlp.down_proj",),
    "feed_forward_norm": ("post_mlp_layernorm",),
}
_MODERNBERT_LAYER: Names = {
    "attention.qkv": ("attn.Wqkv",),
    "attention.out": ("attn.Wo",),
    "attention_norm": ("attn_norm",),
    "feed_forward.up": ("mlp.Wi",),
    "feed_forward.down": ("mlp.Wo",),
    "feed_forward_norm": ("mlp_norm",),
}
_TYPED: Names = {
    "words": ("embeddings.word_embeddings",),
    "token_types": ("embeddings.token_type_embeddings",),
}
_DIALECTS: dict[str, list[tuple[Names, str, Names]]] = {
    "bert": [
        (
            {
                **_TYPED,
                "positions": ("embeddings.position_embeddings",),
                "embedding_norm": ("embeddings.LayerNorm",),
            },
            "encoder.layer.",
            _BERT_LAYER,
        )
    ],
    "nomic": [
        ({**_TYPED, "embedding_norm": ("emb_ln",)}, "encoder.layers.", _NOMIC_LAYER),
        (
            {**_TYPED, "embedding_norm": ("embeddings.LayerNorm",)},
            "layers.",
            _NOMIC_LAYER_IN_TRANSFORMERS,
        ),
    ],
    "modernbert": [
        (
            {
                "words": ("embeddings.tok_embeddings",),
                "embedding_norm": ("embeddings.norm",),
                "final_norm": ("final_norm",),
            },
            "layers.",
            _MODERNBERT_LAYER,
        )
    ],
}
"""Per family: the stack's own names, what stands before a layer's number, the names in a layer."""

_WRAPPERS = re.compile(r"^(bert|nomic_bert|model)\.")
_NOT_OF_A_BACKBONE = re.compile(
    r"^(pooler|cls|head|decoder|classifier)\.|position_ids$|token_type_ids$|inv_freq$"
)

_HEADS = {
    "first_stage.head": "first_stage_model.mlp",
    "prompt_projection": "second_stage_model.prompt_projection",
    "output_projection": "second_stage_model.output_projection",
    "null_embedding": "second_stage_model.sequence_dropout_null_embedding",
}
_STAGES = {
    "first_stage.backbone.": "first_stage_model.embedder.",
    "backbone.": "second_stage_model.backbone.",
}


def import_backbone(
    tensors: Mapping[str, Tensor], config: BackboneConfig, ours: Iterable[str], *, where: str
) -> dict[str, Tensor]:
    """Give published tensors our names.

    Args:
        tensors: As published; a wrapper's name ("bert.") and heads for other tasks are ignored.
        config: The backbone they belong to.
        ours: Names of the parameters that our backbone has.
        where: The file, for messages.

    Raises:
        ModelError: If a tensor is missing or unexpected.
    """
    ours = list(ours)
    published = {_WRAPPERS.sub("", name): tensor for name, tensor in tensors.items()}
    published = {k: v for k, v in published.items() if not _NOT_OF_A_BACKBONE.search(k)}
    dialects = [_parts(ours, *dialect) for dialect in _DIALECTS[config.family]]
    names = max(dialects, key=lambda d: sum(p in published for parts in d.values() for p in parts))
    wanted = [part for parts in names.values() for part in parts]
    require_same_names(published, wanted, where=where)
    return {
        name: torch.cat([published[part] for part in parts])
        if len(parts) > 1
        else published[parts[0]]
        for name, parts in names.items()
    }


def export_backbone(tensors: Mapping[str, Tensor], config: BackboneConfig) -> dict[str, Tensor]:
    """Give our tensors the names that the family's authors use."""
    exported = {}
    for name, parts in _parts(tensors, *_DIALECTS[config.family][0]).items():
        for part, tensor in zip(parts, tensors[name].chunk(len(parts)), strict=True):
            exported[part] = tensor.contiguous()
    return exported


def import_contextual(
    tensors: Mapping[str, Tensor], config: ContextualConfig, ours: Iterable[str], *, where: str
) -> dict[str, Tensor]:
    """Give the tensors of a published two-stage model our names; errors as in `import_backbone`."""
    ours = list(ours)
    imported: dict[str, Tensor] = {}
    heads = {name: _head_name(name) for name in ours if _stage_of(name) is None}
    in_stage = tuple(_STAGES.values())
    require_same_names(
        [name for name in tensors if not name.startswith(in_stage)], heads.values(), where=where
    )
    for (our_stage, their_stage), backbone in zip(
        _STAGES.items(), (config.first, config.second), strict=True
    ):
        theirs = {
            name.removeprefix(their_stage): tensor
            for name, tensor in tensors.items()
            if name.startswith(their_stage)
        }
        wanted = [n.removeprefix(our_stage) for n in ours if _stage_of(n) == our_stage]
        part = import_backbone(theirs, backbone, wanted, where=f"{where}, {their_stage[:-1]}")
        imported |= {our_stage + name: tensor for name, tensor in part.items()}
    return imported | {name: tensors[published] for name, published in heads.items()}


def export_contextual(tensors: Mapping[str, Tensor], config: ContextualConfig) -> dict[str, Tensor]:
    """Give the tensors of our two-stage model their published names."""
    exported = {_head_name(n): t for n, t in tensors.items() if _stage_of(n) is None}
    for (our_stage, their_stage), backbone in zip(
        _STAGES.items(), (config.first, config.second), strict=True
    ):
        ours = {
            name.removeprefix(our_stage): tensor
            for name, tensor in tensors.items()
            if _stage_of(name) == our_stage
        }
        exported |= {their_stage + n: t for n, t in export_backbone(ours, backbone).items()}
    return exported


def require_same_names(found: Iterable[str], wanted: Iterable[str], *, where: str) -> None:
    """Compare the names of tensors.

    Raises:
        ModelError: If one is missing or unexpected; the message names the first few.
    """
    found, wanted = set(found), set(wanted)
    missing, unexpected = sorted(wanted - found), sorted(found - wanted)
    if missing:
        raise ModelError(
            f"{where} lacks {_some(missing)}.{did_you_mean(missing[0], unexpected, most=1)}"
        )
    if unexpected:
        raise ModelError(f"{where} has {_some(unexpected)}, which this model has no place for.")


def _parts(ours: Iterable[str], stack: Names, before_number: str, layer: Names) -> Names:
    """The published parts of each of our names, in one dialect."""
    names: Names = {}
    for name in ours:
        module, _, kind = name.rpartition(".")
        if match := re.match(r"layers\.(\d+)\.(.*)", module):
            number, inner = match.groups()
            names[name] = tuple(f"{before_number}{number}.{p}.{kind}" for p in layer[inner])
        else:
            names[name] = tuple(f"{part}.{kind}" for part in stack[module])
    return names


def _stage_of(name: str) -> str | None:
    return next((stage for stage in _STAGES if name.startswith(stage)), None)


def _head_name(ours: str) -> str:
    for our_head, published in _HEADS.items():
        if ours.startswith(our_head):
            return published + ours.removeprefix(our_head)
    raise ModelError(f"The published format has no place for {ours}; save in our own format.")


def _some(names: list[str], most: int = 3) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
