"""What the controller's decisions come to, and in which order a driver makes that come true.

1. `requests` are sent, each to its broker, in their order, one at a time a broker; one that is not
   answered is sent again until it is, or the broker is gone or registered anew (`broker_epoch`).
   An answer goes to `ClusterController.answered`.
2. `timers` are set: `ClusterController.timer` is called with the name after so many ms.
3. `decisions` are committed after all that were given before, in their order; those that meet a
   Conflict are asked anew.  Whatever is made comes back by `ClusterController.changed`, whose
   effects come first.
4. `then`, if there is one, is called when they are, and gives further effects.  Where a commit
   fails it is not called: the broker is the controller no longer.
5. `reply` is the answer to who asked, of the last effects of such a chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kwire.cluster.metadata.changes import Decision
from kwire.codecs.primitives import Message


@dataclass(frozen=True, slots=True)
class ToBroker:
    """A request to a broker, void if that is registered with another epoch by now."""

    broker_id: int
    broker_epoch: int
    request: Message


@dataclass(slots=True)
class Effects:
    """See the module."""

    requests: list[ToBroker] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    then: Callable[[], Effects] | None = None
    timers: list[tuple[str, int]] = field(default_factory=list)
    """(name, ms from now)"""
    reply: Any = None

    def also(self, other: Effects) -> None:
        """Let those of `other`, which answers nobody, happen as well."""
        assert other.reply is None
        self.requests += other.requests
        self.decisions += other.decisions
        self.timers += other.timers
        first, second = self.then, other.then
        if first is not None and second is not None:
            self.then = lambda: _both(first(), second())
        else:
            self.then = first or second


def _both(effects: Effects, other: Effects) -> Effects:
    effects.also(other)
    return effects
