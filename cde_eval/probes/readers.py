"""What probes of the context begin with: models that read documents first.

models ──▶ readers ──▶ encoders that read something, and a line on those that do not
"""

from __future__ import annotations

from collections.abc import Sequence

from cde_core.errors import ConfigError, ContextError
from cde_core.text import Purpose
from cde_eval.encoders import Encoder, LoadOptions
from cde_eval.encoders.kept import load_kept, unkept
from cde_eval.encoders.protocol import Ranker
from cde_eval.plan import NO_MODEL


def readers(
    models: Sequence[str], options: LoadOptions
) -> tuple[dict[str, Encoder], tuple[str, ...]]:
    """Encoders that read documents, by the names of their models, and a line on each other model.

    Raises:
        ConfigError: If no model reads any.
        ModelError: If a model cannot be loaded.
    """
    if not models:
        raise ConfigError(NO_MODEL)
    encoders = {model: load_kept(model, options) for model in models}
    reading = {model: one for model, one in encoders.items() if one.context_size != 0}
    if not reading:
        raise ConfigError(
            f"{', '.join(models)} {'reads' if len(models) == 1 else 'read'} no context, so no "
            "documents can change a score; name a model that does: bm25, centred:minilm, or a "
            "contextual checkpoint."
        )
    idle = [
        f"{model} reads no context; it is left out." for model in models if model not in reading
    ]
    return reading, tuple(idle)


def why_not_without(encoder: Encoder) -> str:
    """Why an encoder cannot embed without context; "" if it can."""
    if isinstance(encoder, Ranker):
        return ""
    try:
        unkept(encoder).encode(["a text"], purpose=Purpose("Retrieval", "document"), context=None)
    except ContextError as error:
        return str(error)
    return ""
