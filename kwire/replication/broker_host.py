"""The broker as replication sees it: itself, and the others by its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.metadata.image import NO_CONTROLLER
from kwire.peers.error import PeerError
from kwire.peers.peers import Peers, Role
from kwire.replication.isr import in_version

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.log import LogConfig, LogManager
    from kwire.metadata.delta import ClusterDelta
    from kwire.metadata.image import ClusterImage
    from kwire.partitions.flushing import Flusher
    from kwire.partitions.partition import Partition
    from kwire.peers.peer import Peer
    from kwire.settings import BrokerConfig


class BrokerHost:
    """A `ReplicationHost`."""

    def __init__(self, broker: Broker, broker_epoch: int = -1) -> None:
        self._broker = broker
        self.node_id: int = broker.node_id
        self.broker_epoch = broker_epoch
        self.partitions: dict[str, dict[int, Partition]] = broker.partitions
        self.logs: LogManager = broker.logs
        self.peers = Peers(broker)

    @property
    def config(self) -> BrokerConfig:
        return self._broker.config

    @property
    def image(self) -> ClusterImage:
        return self._broker.image

    @property
    def flusher(self) -> Flusher:
        return self._broker.flusher

    def now_ms(self) -> int:
        return self._broker.now_ms()

    def log_config(self, topic: str) -> LogConfig:
        return self._broker.log_config(topic)

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Peer:
        return self.peers.peer(broker_id, role, number)

    def release_peer(self, broker_id: int, role: Role, number: int = 0) -> None:
        self.peers.release(broker_id, role, number)

    def apply_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Take over what the controller says of the cluster; connections to the dead end."""
        self._broker.apply_metadata(image, delta)
        for broker_id, broker in delta.brokers.items():
            if broker is None:
                self.peers.drop(broker_id)

    async def tell_offline(self) -> None:
        if self._broker.member is not None:
            await self._broker.member.tell_offline()

    def leadership_changed(self, partition: Partition) -> None:
        self._broker.leadership_changed(partition)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The answer of whoever is the controller, as far as is known.  Raises PeerError."""
        version = await self.controller().version_for(request)
        response: AlterPartitionResponse
        response = await self.controller().call(in_version(request, version), version_max=version)
        return response

    def controller(self) -> Peer:
        """Whoever is the controller, as far as is known.  Raises PeerError."""
        controller_id = self.image.controller_id
        if controller_id in (NO_CONTROLLER, self.node_id):
            raise PeerError("the controller", "nobody is it")
        return self.peers.peer(controller_id, Role.TO_CONTROLLER)
