"""What a contextual encoder is, and how one is trained.

    model = cde_core.load("folder or name")
    context = model.read_context(documents)
    vectors = model.encode_documents(texts, context)

Nothing here imports the evaluation harness, and everything here runs with torch, transformers,
tokenizers, safetensors and numpy alone. `import cde_core` itself imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cde_core.errors import (
    CdeError,
    ConfigError,
    ContextError,
    DataError,
    ModelError,
    TaskError,
)
from cde_core.text import Purpose

if TYPE_CHECKING:
    from cde_core.model.checkpoint import export, load, save
    from cde_core.model.context import Context
    from cde_core.model.encode import TextEncoder

__all__ = [
    "CdeError",
    "ConfigError",
    "Context",
    "ContextError",
    "DataError",
    "ModelError",
    "Purpose",
    "TaskError",
    "TextEncoder",
    "export",
    "load",
    "save",
]

_NEED_TORCH = {
    "Context": "cde_core.model.context",
    "TextEncoder": "cde_core.model.encode",
    "export": "cde_core.model.checkpoint",
    "load": "cde_core.model.checkpoint",
    "save": "cde_core.model.checkpoint",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first asked for, so that `--help` need not wait."""
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'cde_core' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_NEED_TORCH[name]), name)
