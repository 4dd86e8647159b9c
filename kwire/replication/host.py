"""What replication asks of the broker that it is part of."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.log import LogConfig, LogManager
    from kwire.metadata.delta import ClusterDelta
    from kwire.metadata.image import ClusterImage
    from kwire.partitions.flushing import Flusher
    from kwire.partitions.partition import Partition
    from kwire.peers.peer import Peer
    from kwire.peers.peers import Role
    from kwire.settings import BrokerConfig


class ReplicationHost(Protocol):
    """See the module; `kwire.broker.Broker` is one."""

    @property
    def node_id(self) -> int: ...

    broker_epoch: int
    """Of this broker's registration; -1 while it has none."""

    @property
    def partitions(self) -> dict[str, dict[int, Partition]]: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def image(self) -> ClusterImage: ...
    @property
    def flusher(self) -> Flusher: ...

    def now_ms(self) -> int:
        """Wall clock in ms since the epoch."""

    def log_config(self, topic: str) -> LogConfig: ...

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Peer: ...

    def release_peer(self, broker_id: int, role: Role, number: int = 0) -> None: ...

    def apply_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """`image` is what this broker knows of the cluster from now on."""

    async def tell_offline(self) -> None:
        """Have the controller ask, by LeaderAndIsr, which partitions cannot be had here."""

    def leadership_changed(self, partition: Partition) -> None:
        """This broker leads the partition in another epoch, or no longer."""

    def alter_partition(self, request: AlterPartitionRequest) -> Awaitable[AlterPartitionResponse]:
        """The controller's answer.  Raises PeerError."""
