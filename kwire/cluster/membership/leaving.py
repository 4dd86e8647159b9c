"""A member's controlled shutdown: other brokers lead what this one leads before it stops.

Apache Kafka 3.9 asks the controller `controlled.shutdown.max.retries` times, waits
`controlled.shutdown.retry.backoff.ms` in between, and gives each attempt
`controller.socket.timeout.ms`: 100 s by default.  Here all attempts share that timeout, so that a
broker whose metadata store does not answer stops within 35 s, before its supervisor kills it
(`kwire serve --brokers` does so after 60 s).  Whoever is the controller once the store answers
again elects leaders for the partitions of a broker that is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.settings.zookeeper import ZooKeeperSettings

if TYPE_CHECKING:
    from kwire.codecs.messages.controlled_shutdown import ControlledShutdownResponse
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.cluster")


@dataclass(frozen=True, slots=True)
class ShutdownLimits:
    """How often, and for how long, a controlled shutdown is attempted."""

    attempts_max: int
    backoff_s: float
    answer_timeout_s: float

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Return the limits that a broker's settings give."""
        settings = ZooKeeperSettings(config.explicit)
        return cls(
            settings.controlled_shutdown_max_retries,
            settings.controlled_shutdown_retry_backoff_ms / 1000,
            config.controller_socket_timeout_ms / 1000,
        )

    @property
    def total_s(self) -> float:
        return self.answer_timeout_s + self.attempts_max * self.backoff_s


async def hand_over(
    ask: Callable[[], Awaitable[ControlledShutdownResponse]],
    is_alone: Callable[[], bool],
    limits: ShutdownLimits,
) -> None:
    """Send controlled shutdown requests until nothing is left to hand over, within `limits`.

    `ask` sends one request and raises PeerError or StoreError.  `is_alone` returns whether no other
    broker is a member, so that none could take over.
    """
    with trio.move_on_after(limits.total_s) as scope:
        for attempt in range(limits.attempts_max):
            if attempt > 0:
                await trio.sleep(limits.backoff_s)
            if is_alone():
                return
            try:
                answer = await ask()
            except (PeerError, StoreError) as error:
                log.info("The controller did not answer a controlled shutdown: %s", error)
                continue
            if not answer.error_code and not answer.remaining_partitions:
                return
    if scope.cancelled_caught:
        log.warning(
            "Nobody answered the controlled shutdown within %g s (controller.socket.timeout.ms). "
            "The broker stops; the others elect new leaders once the metadata can be reached.",
            limits.total_s,
        )
    else:
        log.warning("The broker stops, although no other broker can lead some of its partitions.")
