"""Whose documents help: a context from one domain, a search task of another.

    tasks Y × domains X (the same tasks) ──▶ evaluate, context task:X ──▶ a record per pair and draw
                                                          report/domains.py ──▶ matrix of nDCG@10

If a model makes use of what it reads, the task's own documents should serve it best, and those of a
related domain better than those of a far one. The diagonal is drawn as every other column is, with
the policy `task:Y` on the task Y; the seed of a sample depends on the task that is scored, so it is
the very sample that the policy `corpus` draws.

Records are ordinary ones, so what was scored before is read and not run.

Source: Morris and Rush (2024), figure 7, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cde_core.errors import ConfigError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import Encoder, LoadOptions
from cde_eval.plan import Evaluation
from cde_eval.tasks.catalogue import TaskSource


def domains_plan(
    encoders: Mapping[str, Encoder],
    tasks: Sequence[TaskSource],
    *,
    size: int | None = None,
    draws: int = 1,
    seed: int = 42,
    options: LoadOptions,
) -> Evaluation:
    """Every task with the documents of every task, its own among them.

    Args:
        encoders: Models that read documents, by name.
        tasks: Search tasks, each a domain.
        size: Documents to read; None for as many as a model reads by itself.
        draws: Samples of each domain for each task.
        seed: Seed of the first draw.
        options: How the encoders were loaded.

    Raises:
        ConfigError: If there are fewer than two tasks, or there is no draw.
    """
    if len(tasks) < 2:
        named = f"only {tasks[0].name}" if tasks else "none"
        raise ConfigError(
            f"Domains are compared between search tasks, and there is {named}; name two or more "
            "with --tasks or --data."
        )
    return Evaluation(
        models=tuple(encoders),
        tasks=tuple(tasks),
        policies=tuple(ContextPolicy(f"task:{task.name}", size, seed) for task in tasks),
        draws=draws,
        options=options,
        task_lookup=tuple(tasks),
        loaded=encoders,
    )
