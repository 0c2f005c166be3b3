"""Several processes that train one model, each with a share of every batch.

    torchrun ──▶ World.join ──▶ World (rank, size) ──▶ share, total

Every process knows the whole plan of a batch and computes only its own share of it. What they tell
one another are sums: a matrix that each fills where its own rows are, and the gradients. So one
process is the case where a sum has one term, and needs no path of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from cde_core.errors import ConfigError

BUCKET = 64 * 2**20
"""Bytes of gradients that are summed by one message."""


@dataclass(frozen=True, slots=True)
class World:
    """This process among those that train together."""

    rank: int = 0
    """Number of this process."""

    size: int = 1
    """How many there are."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where this process computes."""

    @classmethod
    def join(cls, device: str = "auto") -> World:
        """Find the other processes, if torchrun started this one; else be alone.

        Args:
            device: "auto": a GPU of its own for every process, where there are any.

        Raises:
            ConfigError: If there is no such device.
        """
        size, rank = (int(os.environ.get(name, d)) for name, d in (("WORLD_SIZE", 1), ("RANK", 0)))
        here = usable_device(device, int(os.environ.get("LOCAL_RANK", 0)))
        if size > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if here.type == "cuda" else "gloo")
        return cls(rank=rank, size=size, device=here)

    def leave(self) -> None:
        """Tell the others that this process is done."""
        if self.size > 1:
            dist.destroy_process_group()

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and speaks to the user."""
        return self.rank == 0

    def share(self, count: int) -> NDArray[np.int64]:
        """Numbers below `count` that are this process's own; neighbours stay together."""
        return np.array_split(np.arange(count), self.size)[self.rank]

    def total(self, values: Tensor) -> Tensor:
        """Sum of `values` over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()

    def total_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Give every parameter the sum of its gradients over all processes.

        A parameter that was not used has a gradient of zeros, so that the optimiser's memory of it
        does not depend on who used it.
        """
        bucket: list[Tensor] = []
        for parameter in parameters:
            if not parameter.requires_grad:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            if sum(gradient.nbytes for gradient in bucket) >= BUCKET:
                self._total_together(bucket)
                bucket = []
        self._total_together(bucket)

    def _total_together(self, tensors: list[Tensor]) -> None:
        if self.size == 1 or not tensors:
            return
        flat = self.total(torch.cat([tensor.flatten() for tensor in tensors]))
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


def usable_device(name: str, local_rank: int = 0) -> torch.device:
    """The device of a name, tried.

    Args:
        name: Such as "cuda"; "auto": a GPU, where there are any.
        local_rank: Number of this process on this machine, which is that of its GPU.

    Raises:
        ConfigError: If it cannot be used here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{local_rank}"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"device is {name!r}, which cannot be used here: {reason}") from None
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
