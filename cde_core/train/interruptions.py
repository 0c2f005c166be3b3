"""Signals that ask a run to stop, which wait until it can be continued.

    SIGTERM or Ctrl-C ──▶ Interruptions ──▶ end of the step ──▶ checkpoint ──▶ exit

Clusters send SIGTERM before they take a machine away, and people press Ctrl-C. The second time
neither waits. Of several processes, all stop after the same step, whichever was asked.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from cde_core.train.distributed import World


@dataclass
class Interruptions:
    """SIGTERM and SIGINT, which wait for the end of a step; the second time, they do not."""

    asked: int = 0
    _before: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> Interruptions:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = number
        signal.signal(number, self._before[number])

    def anywhere(self, world: World) -> int:
        """Number of the signal that any process got; 0: none did."""
        flag = torch.tensor([float(self.asked)], device=world.device)
        return int(world.total(flag).item()) and (self.asked or signal.SIGTERM)
