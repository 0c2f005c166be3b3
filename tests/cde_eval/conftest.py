"""Encoders of the tests, found as those of a user are."""

from collections.abc import Callable

import pytest

from cde_eval.encoders import Encoder


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let `evaluate` find encoders by name without entry points."""
    from cde_eval import plan

    monkeypatch.setenv("TQDM_DISABLE", "1")

    def use(**encoders: Encoder) -> None:
        monkeypatch.setattr(plan, "load_kept", lambda name, options: encoders[name])

    return use
