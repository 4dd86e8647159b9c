"""What client telemetry asks of the broker that it is on; kwire.broker.Broker is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kwire.metadata.image import ClusterImage
from kwire.partitions.partition import Partition
from kwire.settings import BrokerConfig
from kwire.timers import Timers

if TYPE_CHECKING:
    from kwire.peers.peers import Peers


class TelemetryHost(Protocol):
    """See the module."""

    node_id: int
    config: BrokerConfig
    image: ClusterImage
    timers: Timers
    peers: Peers | None
    """The way to the other brokers; None where there are none."""

    @staticmethod
    def now_ms() -> int:
        """Wall clock in ms since the epoch."""

    def led_partition(self, topic: str, index: int) -> Partition:
        """The partition, if it is here and led by this broker; LogError says what else."""

    async def create_internal_topic(self, name: str) -> None:
        """Make a topic of the broker's own, if it is not there yet."""
