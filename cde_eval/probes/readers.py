"""What probes of the context begin with: search tasks, and models that read documents first.

names, folders ──▶ search_tasks ──▶ what is scored by nDCG@10
models         ──▶ readers      ──▶ encoders that read something, and a line on those that do not
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cde_core.errors import ConfigError, ContextError, TaskError
from cde_core.text import Purpose
from cde_eval.encoders import Encoder, LoadOptions
from cde_eval.encoders.kept import load_kept, unkept
from cde_eval.encoders.protocol import Ranker
from cde_eval.tasks.catalogue import TaskSource, find_tasks


def search_tasks(names: Sequence[str], data: Sequence[Path]) -> list[TaskSource]:
    """The search tasks among those that are asked for; without names, all of the data folders.

    Raises:
        TaskError: If a name is not known, or one that was named is no search task.
    """
    found = find_tasks(names, data=data)
    searches = [one for one in found if _kind(one) == "Retrieval"]
    others = [one for one in found if one not in searches]
    if names and others:
        raise TaskError(
            f"{others[0].name} is a {_kind(others[0])} task; this probe takes search tasks, such "
            "as DocsNetworkX or a BEIR folder."
        )
    return searches


def _kind(source: TaskSource) -> str:
    return source.task_type or str(source.make().metadata.type)


def readers(
    models: Sequence[str], options: LoadOptions
) -> tuple[dict[str, Encoder], tuple[str, ...]]:
    """Encoders that read documents, by the names of their models, and a line on each other model.

    Raises:
        ConfigError: If no model reads any.
        ModelError: If a model cannot be loaded.
    """
    if not models:
        raise ConfigError("--model names no model; `cde-eval encoders` lists what can be named.")
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


def require_draws(draws: int) -> None:
    """Refuse to draw nothing.

    Raises:
        ConfigError: If there is no draw.
    """
    if draws < 1:
        raise ConfigError(f"--draws is {draws}; draw at least one sample.")
