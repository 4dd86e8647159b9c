"""A hostile case: a name, and a script that runs on both brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.conformance.hostile.stage import HostileStage


@dataclass(frozen=True, slots=True)
class HostileCase:
    """A case; `name` is `kind/description`, with the kinds `batch`, `delivery` and `mutation`."""

    name: str
    play: Callable[[HostileStage], None]
