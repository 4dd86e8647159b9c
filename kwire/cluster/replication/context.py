"""ReplicationContext: what replication needs of its broker (node, logs, metadata, peers)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.image import NO_CONTROLLER
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Peers, Role
from kwire.cluster.replication.isr import in_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.broker.node import Node
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.peers.peer import Peer
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.settings import BrokerConfig
    from kwire.storage.partitions.progress import Follower


class ReplicationContext:
    """One per broker.  `broker_epoch` is the epoch of its registration, -1 before it registers.

    The constructor sets `node.peers`.  Raises ConfigError if the inter-broker listener requires a
    login or TLS and this broker has no usable settings for it.
    """

    def __init__(self, node: Node, broker_epoch: int = -1) -> None:
        """Gives `node` its connections to the other brokers."""
        self._node = node
        self.node_id = node.node_id
        self.hosted = node.hosted
        self.logs = node.hosted.logs
        self._registered_epoch: Callable[[], int] = lambda: broker_epoch
        self.peers = node.peers = Peers(node.settings, lambda: node.image)

    @property
    def broker_epoch(self) -> int:
        return self._registered_epoch()

    @broker_epoch.setter
    def broker_epoch(self, broker_epoch: int) -> None:
        self._registered_epoch = lambda: broker_epoch

    @property
    def own_isr_epoch(self) -> int:
        """The broker epoch with which AlterPartition names this broker, the leader.

        -1 stands for an epoch that the controller does not compare.
        """
        return -1

    def is_eligible(self, follower: Follower) -> bool:
        """Whether a follower may join an ISR, as far as the metadata say."""
        return follower.broker_id in self.image.brokers

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker has registered again since it got `broker_epoch`.

        UpdateMetadata has no broker epochs, so it is not known here.
        """
        return False

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
        """Apply the controller's metadata; close connections to brokers that are gone."""
        self._node.metadata.apply(image, delta)
        for broker_id, broker in delta.brokers.items():
            if broker is None:
                self.peers.drop(broker_id)

    def leader_lost(self, broker_id: int) -> None:
        """A leader that answered until now does not answer any more; its process may have ended.

        Does nothing here; a member of a cluster overrides it (`kwire.cluster.membership.member`).
        """

    async def report_offline(self) -> None:
        """Make the controller send LeaderAndIsr again, which shows it the offline partitions.

        Does nothing here; a member of a cluster overrides it (`kwire.cluster.membership.member`).
        """

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The response of the controller that this broker knows.  Raises PeerError."""
        version = await self.controller().version_for(request)
        response: AlterPartitionResponse
        response = await self.controller().call(in_version(request, version), version_max=version)
        return response

    def controller(self) -> Peer:
        """The peer of the controller that this broker knows.  Raises PeerError if it knows none."""
        controller_id = self.image.controller_id
        if controller_id in (NO_CONTROLLER, self.node_id):
            raise PeerError("the controller", "no other broker is known to be the controller")
        return self.peers.peer(controller_id, Role.TO_CONTROLLER)
