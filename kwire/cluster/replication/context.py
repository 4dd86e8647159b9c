"""What replication works with: the node that it is part of, and the way to the other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.image import NO_CONTROLLER
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Peers, Role
from kwire.cluster.replication.isr import in_version

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.peers.peer import Peer
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.settings import BrokerConfig


class ReplicationContext:
    """One broker's.  `broker_epoch` is that of its registration; -1 while it has none.

    Making one gives the node its `peers`.  Raises ConfigError where the other brokers ask for a
    login or for TLS, and this one has no settings for that.
    """

    def __init__(self, node: Node, broker_epoch: int = -1) -> None:
        self._node = node
        self.node_id = node.node_id
        self.hosted = node.hosted
        self.logs = node.hosted.logs
        self.broker_epoch = broker_epoch
        self.peers = node.peers = Peers(node.settings, lambda: node.image)

    @property
    def config(self) -> BrokerConfig:
        return self._node.config

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    def now_ms(self) -> int:
        """Wall clock in ms since the epoch."""
        return self._node.now_ms()

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Peer:
        return self.peers.peer(broker_id, role, number)

    def release_peer(self, broker_id: int, role: Role, number: int = 0) -> None:
        self.peers.release(broker_id, role, number)

    def apply_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Take over what the controller says of the cluster; close connections to lost brokers."""
        self._node.metadata.apply(image, delta)
        for broker_id, broker in delta.brokers.items():
            if broker is None:
                self.peers.drop(broker_id)

    async def report_offline(self) -> None:
        """Have the controller ask, by LeaderAndIsr, which partitions cannot be served here.

        Only a member of a cluster can (`kwire.cluster.membership.member`).
        """

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The answer of the controller, as far as this broker knows it.  Raises PeerError."""
        version = await self.controller().version_for(request)
        response: AlterPartitionResponse
        response = await self.controller().call(in_version(request, version), version_max=version)
        return response

    def controller(self) -> Peer:
        """The controller, as far as this broker knows it.  Raises PeerError."""
        controller_id = self.image.controller_id
        if controller_id in (NO_CONTROLLER, self.node_id):
            raise PeerError("the controller", "nobody is it")
        return self.peers.peer(controller_id, Role.TO_CONTROLLER)
