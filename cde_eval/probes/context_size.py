"""How many documents have to be read: score against the size of the context.

    sizes 0, 1, 4, 16, …, all ──▶ evaluate, context of that size ──▶ a record per size, task, draw
                                            report/context_curves.py ──▶ curve with its intervals

Size 0 is the null context, for models that have one. A small sample says little of a corpus and
another one says something else, so each size is drawn several times.

Records are ordinary ones, so what was scored before is read and not run.

Source: Morris and Rush (2024), figure 16, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Sequence

from cde_core.errors import ConfigError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import Encoder, LoadOptions
from cde_eval.plan import Evaluation
from cde_eval.tasks.catalogue import TaskSource

STEP = 4
"""From one of the usual sizes to the next."""

LARGEST_OF_MANY = 1_024
"""Of the usual sizes of an encoder that reads all documents there are, the last before all."""


def usual_sizes(own: int | None) -> tuple[int | None, ...]:
    """0, 1, 4, 16, … and as many as a model reads by itself; None stands for all documents."""
    largest = LARGEST_OF_MANY + 1 if own is None else own
    powers = [1]
    while powers[-1] * STEP < largest:
        powers.append(powers[-1] * STEP)
    return (0, *dict.fromkeys((*powers, own)))


def size_plan(
    model: str,
    encoder: Encoder,
    tasks: Sequence[TaskSource],
    sizes: Sequence[int | None],
    *,
    context: Sequence[str] = ("corpus",),
    draws: int = 3,
    seed: int = 42,
    options: LoadOptions,
) -> Evaluation:
    """One model on every task with a context of every size.

    Args:
        model: As it was asked for.
        encoder: What it names.
        tasks: Search tasks.
        sizes: Documents to read: 0 for none, None for all. A size above the model's own is read
            too, as with `--size`.
        context: Whose documents: corpus, and random as a control.
        draws: Samples of each size for each task.
        seed: Seed of the first draw.
        options: How the encoder was loaded.

    Raises:
        ConfigError: If there is no size, task or draw, or a size is below 0.
    """
    if not sizes:
        raise ConfigError("--sizes names no size; give some, such as --sizes 0 1 4 16 64.")
    drawn = sorted({size for size in sizes if size != 0}, key=lambda size: size or float("inf"))
    policies = [ContextPolicy(source, size, seed) for source in context for size in drawn]
    if 0 in sizes:
        policies.append(ContextPolicy("none"))
    return Evaluation(
        models=(model,),
        tasks=tuple(tasks),
        policies=tuple(policies),
        draws=draws,
        options=options,
        loaded={model: encoder},
    )
