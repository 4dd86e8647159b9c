"""What a coordinator asks of the broker that it lives on; kwire.broker.Broker is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kwire.metadata.image import ClusterImage
from kwire.partitions.host import PartitionHost
from kwire.settings import BrokerConfig
from kwire.timers import Timers
from kwire.txn.producer_ids import ProducerIds

if TYPE_CHECKING:
    from kwire.peers.peers import Peers


class CoordinatorHost(PartitionHost, Protocol):
    """See the module."""

    node_id: int
    timers: Timers
    producer_ids: ProducerIds
    peers: Peers | None
    """The way to the other brokers; None where there are none."""

    @property
    def static_config(self) -> BrokerConfig:
        """As the broker was started."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is known now."""

    async def restock_producer_ids(self) -> None:
        """Have producer ids to give out.  Raises StoreError."""
