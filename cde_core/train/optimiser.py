"""AdamW over the right parameters, and how fast each step moves them.

    model ──▶ parameter_groups ──▶ make_optimiser ──▶ AdamW
                                                        ▲
    step ──▶ learning_rate_at ──▶ factor ──▶ set_learning_rate

    AdamW ──▶ memory_of ──▶ tensors by name ──▶ restore_memory ──▶ AdamW of another process

A contextual model is pretrained backbones and new parts between them. The new parts may learn
faster, whole parts may stand still (a frozen first stage), and biases, norms and single vectors are
not pulled towards zero. The learning rate of a step depends on nothing but the step's number, so a
resumed run needs no scheduler of its own.

Source: Loshchilov and Hutter (2019), https://arxiv.org/abs/1711.05101; the schedule is that of
Morris and Rush (2024), section 5, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import cos, pi
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cde_core.errors import ConfigError, ModelError, did_you_mean

Schedule = Literal["linear", "cosine", "constant"]
SCHEDULES = ("linear", "cosine", "constant")
PRETRAINED = ("backbone", "first_stage.backbone")
"""Parts whose weights were there before training; every other part is new."""

BASE_RATE = "initial_lr"
"""Where a group remembers its own learning rate; the name that PyTorch's schedulers use too."""


def parameter_groups(
    model: nn.Module,
    *,
    learning_rate: float,
    new_learning_rate: float = 0.0,
    weight_decay: float = 0.01,
    freeze: Sequence[str] = (),
    objective: nn.Module | None = None,
) -> list[dict[str, Any]]:
    """What an optimiser of PyTorch takes: parameters with their learning rate and weight decay.

    Args:
        model: Parameters that `freeze` names stop needing gradients here.
        learning_rate: Of the backbones.
        new_learning_rate: Of all other parts; 0: the same.
        weight_decay: Of matrices; biases, norms and single vectors have none.
        freeze: Parts that stand still, such as "first_stage.backbone" or "backbone.layers.0"; a
            name stands for everything below it.
        objective: Its layers are trained as new parts, "objective." before their names.

    Raises:
        ConfigError: If a frozen part is not in the model, or nothing is left to be trained.
    """
    parameters = _named(model, objective)
    _freeze(parameters, freeze)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        if parameter.requires_grad:
            rate = learning_rate if _is_within(name, PRETRAINED) else new_learning_rate
            decay = weight_decay if parameter.ndim > 1 and not name.endswith("bias") else 0.0
            groups.setdefault((rate or learning_rate, decay), []).append(parameter)
    if not groups:
        raise ConfigError(
            f"freeze is {', '.join(freeze)}, which leaves nothing to be trained; freeze less."
        )
    return [
        {"params": trained, "lr": rate, BASE_RATE: rate, "weight_decay": decay}
        for (rate, decay), trained in groups.items()
    ]


def make_optimiser(
    model: nn.Module,
    *,
    learning_rate: float,
    new_learning_rate: float = 0.0,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    freeze: Sequence[str] = (),
    objective: nn.Module | None = None,
) -> torch.optim.AdamW:
    """AdamW over `parameter_groups`.

    On CPUs it goes through the parameters one by one, in plain arithmetic that gives the same bits
    every time; on GPUs in one fused kernel.

    Raises:
        ConfigError: As `parameter_groups`.
    """
    groups = parameter_groups(
        model,
        learning_rate=learning_rate,
        new_learning_rate=new_learning_rate,
        weight_decay=weight_decay,
        freeze=freeze,
        objective=objective,
    )
    on_gpu = all(p.device.type == "cuda" for group in groups for p in group["params"])
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=betas, eps=epsilon, foreach=False, fused=on_gpu
    )


def learning_rate_at(
    step: int,
    *,
    steps: int,
    warmup: int = 0,
    schedule: Schedule = "linear",
    lowest: float = 0.0,
) -> float:
    """Factor in [0, 1] that the learning rates of a step are multiplied by.

    It rises from 1 / `warmup` in equal parts, so that no step is wasted on a rate of zero, and is 1
    from step `warmup` - 1 to step `warmup`. A linear schedule then falls to `lowest` at `steps`,
    which is after the last step; a cosine does so slowly at first and at last.

    Args:
        step: Number of the step, from 0.
        steps: Steps of the whole run.
        warmup: Steps of the rise. As many as the run has, or more, are taken for half of the run:
            a short trial of a long recipe sees its whole schedule.
        schedule: What comes after the rise.
        lowest: Factor that it falls to.

    Raises:
        ConfigError: If there is no such schedule.
    """
    if schedule not in SCHEDULES:
        raise ConfigError(
            f"schedule is {schedule!r}; it can be {', '.join(SCHEDULES)}."
            f"{did_you_mean(schedule, SCHEDULES)}"
        )
    warmup = warmup if warmup < steps else steps // 2
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    left = max(0.0, (steps - step) / max(1, steps - warmup))
    if schedule == "cosine":
        left = (1 - cos(pi * left)) / 2
    return lowest + (1 - lowest) * left


def set_learning_rate(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Give every group its own learning rate times `factor`."""
    for group in optimiser.param_groups:
        group["lr"] = factor * group.setdefault(BASE_RATE, group["lr"])


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Scale all gradients together so that their norm is at most `most`.

    Args:
        parameters: Those without gradients count as zero.
        most: 0: gradients stay as they are.

    Returns:
        The norm before; where it is inf or nan the gradients are of no use, and neither is a step.
    """
    norm: Tensor = nn.utils.clip_grad_norm_(list(parameters), most or float("inf"))
    return norm.item()


def memory_of(
    optimiser: torch.optim.Optimizer, model: nn.Module, objective: nn.Module | None = None
) -> dict[str, Tensor]:
    """All that an optimiser remembers, by names such as "exp_avg/backbone.words.weight".

    On CPUs these are its own tensors. Parameters that it has not moved yet have none.
    """
    state = optimiser.state_dict()["state"]
    return {
        f"{what}/{name}": tensor.detach().cpu().contiguous()
        for name, number in _numbers(optimiser, _named(model, objective)).items()
        for what, tensor in state.get(number, {}).items()
    }


def restore_memory(
    optimiser: torch.optim.Optimizer,
    model: nn.Module,
    memory: Mapping[str, Tensor],
    *,
    where: str,
    objective: nn.Module | None = None,
) -> None:
    """Make an optimiser remember this and nothing else; its learning rates stay as they are.

    Args:
        optimiser: Of `model`.
        model: Has the parameters' names.
        memory: What `memory_of` gave.
        where: Where it comes from, for messages.
        objective: Whose layers it trains beside the model.

    Raises:
        ModelError: If it is of a parameter that this optimiser does not train.
    """
    numbers = _numbers(optimiser, _named(model, objective))
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in memory.items():
        what, _, name = key.partition("/")
        if name not in numbers:
            raise ModelError(
                f"{where} holds what an optimiser knew of {name}, which is not trained now; go on "
                "with the recipe that it was made with, or start in a new folder."
            )
        # A copy: tensors in a file are not aligned in memory, and others' own must not be shared.
        state.setdefault(numbers[name], {})[what] = tensor.clone()
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def _named(model: nn.Module, objective: nn.Module | None) -> dict[str, nn.Parameter]:
    """All that a run may train: the model's parameters, then those of the objective's layers."""
    beside = objective.named_parameters() if objective else ()
    return dict(model.named_parameters()) | {f"objective.{name}": one for name, one in beside}


def _numbers(
    optimiser: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]
) -> dict[str, int]:
    """Number by which the optimiser's own state knows each parameter."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    trained = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    return {names[id(parameter)]: number for number, parameter in enumerate(trained)}


def _freeze(parameters: Mapping[str, nn.Parameter], parts: Sequence[str]) -> None:
    for part in parts:
        frozen = [p for name, p in parameters.items() if _is_within(name, (part,))]
        if not frozen:
            known = {place for name in parameters for place in _places(name)}
            raise ConfigError(
                f"freeze names {part!r}, which is no part of the model."
                f"{did_you_mean(part, known) or f' Its parts are {_outermost(parameters)}.'}"
            )
        for parameter in frozen:
            parameter.requires_grad_(False)


def _is_within(name: str, parts: Iterable[str]) -> bool:
    """Whether a parameter is one of these parts or below one; "layers.1" has no "layers.10"."""
    return any(f"{name}.".startswith(f"{part.rstrip('.')}.") for part in parts)


def _places(name: str) -> Iterable[str]:
    """A name and everything that it is within: of "a.b.c" those are "a", "a.b" and "a.b.c"."""
    return accumulate(name.split("."), "{}.{}".format)


def _outermost(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name.partition(".")[0] for name in names))
