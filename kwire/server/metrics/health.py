"""Whether a broker is alive, and whether it is ready for clients, with the reasons if not.

Alive: the loop answers; a broker whose loop hangs answers nothing.  It is not alive any more once
it has lost its storage or its cluster, because it then stops.

Ready: clients can connect, and get what they come for.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from kwire.cluster.metadata.image import NO_CONTROLLER

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.http.messages import HttpReply


class Phase(Enum):
    """Where the broker is between its start and its stop."""

    STARTING = "the broker is starting: it reads its logs and metadata"
    SERVING = "all listeners accept connections"
    STOPPING = "the broker is stopping"


class Health:
    """The state of one broker; `broker` is None until its logs and metadata are read."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.broker: Broker | None = None

    def why_not_alive(self) -> list[str]:
        """The reasons why the broker is not alive; empty if it is."""
        broker = self.broker
        if broker is None or not broker.storage_lost.is_set():
            return []
        return [str(broker.membership_lost or "the log directories are lost")]

    def why_not_ready(self) -> list[str]:
        """The reasons why the broker is not ready; empty if it is."""
        reasons = self.why_not_alive()
        if self.phase is not Phase.SERVING:
            reasons.append(self.phase.value)
        if self.broker is not None:
            reasons += _why_not_served(self.broker)
        return reasons

    def alive_reply(self) -> HttpReply:
        """The answer to GET /healthz."""
        return self._reply("healthy", self.why_not_alive())

    def ready_reply(self) -> HttpReply:
        """The answer to GET /readyz."""
        return self._reply("ready", self.why_not_ready())

    def _reply(self, name: str, reasons: list[str]) -> HttpReply:
        from kwire.server.http.messages import HttpReply

        body: dict[str, Any] = {
            name: not reasons,
            "reasons": reasons,
            "phase": self.phase.name.lower(),
        }
        if self.broker is not None:
            body["broker"] = self.broker.node_id
            body["cluster"] = self.broker.metadata.image.cluster_id
        return HttpReply(503 if reasons else 200, body)


def _why_not_served(broker: Broker) -> Iterator[str]:
    """Yield the reasons why an open broker does not serve its clients."""
    membership, image = broker.membership, broker.image
    if not membership.has_metadata:
        yield "the controller has not sent the metadata of the cluster yet"
    elif broker.node_id not in image.brokers:
        yield (
            "the cluster does not count this broker among its live brokers: it is fenced, or not "
            "registered"
        )
    elif membership.forwarding is None and image.controller_id == NO_CONTROLLER:
        yield "the cluster has no controller"
    for path, problem in broker.logs.offline_dirs.items():
        yield f"log directory {path} is offline: {problem}"
