"""The way to a Ray cluster, and the machines that it has.

$RAY_ADDRESS, HOST:PORT or nothing ──▶ connect ──▶ machines_of_cluster
"""

from __future__ import annotations

import logging
import os
import socket
import warnings
from typing import Any

from cde_core.errors import ConfigError

PATIENCE = 20
"""Seconds that a cluster may take to answer."""

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of blocks that nobody waits for after another's error
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # pages about a lost machine, which we say in a line
}
"""What Ray is not to print."""


def connect(address: str | None) -> None:
    """Connect this process to a cluster, quietly; nothing is done if it is connected.

    Raises:
        ConfigError: If that cannot be.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)  # Ray reads them as it is imported
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "The engine ray needs Ray, which is not installed: pip install 'cde-eval[ray]'."
        ) from error
    if ray.is_initialized():
        return
    try:
        _knock(address or os.environ.get("RAY_ADDRESS", ""))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Ray will change some day
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False,
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"No Ray cluster can be used at {address or 'the address in $RAY_ADDRESS'}: "
            f"{first_line(error)} Give the address that `ray start --head` printed, as "
            "ray:HOST:PORT, and the same versions of Python and Ray on every machine."
        ) from error


def _knock(address: str) -> None:
    """See that something listens at HOST:PORT; Ray itself would try for many minutes.

    Raises:
        OSError: If nothing does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()


def machines_of_cluster() -> dict[str, dict[str, float]]:
    """What each machine of the cluster has, by its id and by kind."""
    import ray

    nodes: Any = ray.nodes  # which Ray has no types for
    return {node["NodeID"]: node["Resources"] for node in nodes() if node["Alive"]}


def first_line(error: BaseException) -> str:
    """What an error says first, as a sentence."""
    lines = str(error).strip().splitlines() or [repr(error)]
    return lines[0].rstrip(".") + "."
