"""What the controller wants done after an event, and the order in which its driver does it.

1. The driver sends `requests`, each to its broker, in their order and one at a time for each
   broker. It sends a request again until the broker answers, is gone, or has registered with
   another epoch (`broker_epoch`).  The response goes to `ClusterController.response_received`.
2. The driver sets `timers`: it calls `ClusterController.timer_fired` with the name after that many
   milliseconds.
3. The driver commits `decisions` in their order, after all decisions of earlier effects.  A
   decision whose change meets a Conflict is asked again.  Each committed change comes back through
   `ClusterController.image_changed`, whose effects come before step 4.
4. The driver calls `then`, if it is not None, once the decisions are committed.  It returns further
   effects.  The driver does not call it if a commit fails: the broker is no longer the controller.
5. `reply` answers the request that caused the effects.  In a chain of effects, the last reply
   counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kwire.cluster.metadata.changes import Decision
from kwire.codecs.primitives import Message


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A request to a broker.  It is void once the broker is registered with another epoch."""

    broker_id: int
    broker_epoch: int
    request: Message


@dataclass(slots=True)
class ControllerEffects:
    """What a driver has to do after one event; see the module."""

    requests: list[BrokerRequest] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    then: Callable[[], ControllerEffects] | None = None
    timers: list[tuple[str, int]] = field(default_factory=list)
    """(name, delay in ms)"""
    reply: Any = None

    def add(self, other: ControllerEffects) -> None:
        """Add the effects of `other`, which must not have a reply, behind these."""
        assert other.reply is None, "two replies cannot answer one request"
        self.requests += other.requests
        self.decisions += other.decisions
        self.timers += other.timers
        first, second = self.then, other.then
        if first is not None and second is not None:
            self.then = lambda: _both(first(), second())
        else:
            self.then = first or second


def _both(effects: ControllerEffects, other: ControllerEffects) -> ControllerEffects:
    """`effects`, with those of `other` added."""
    effects.add(other)
    return effects
