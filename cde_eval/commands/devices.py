"""Where a command computes."""

from __future__ import annotations

from cde_core.errors import CdeError


def device_named(asked: str) -> str:
    """The device that `auto` stands for, or the one that is asked for.

    Raises:
        CdeError: If it is not there.
    """
    import torch

    if asked != "auto":
        try:
            torch.empty(0, device=asked)
        except (RuntimeError, AssertionError) as error:
            raise CdeError(
                f"There is no device {asked!r} here ({str(error).splitlines()[0]}); use cpu."
            ) from error
        return asked
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
