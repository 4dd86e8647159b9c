"""KraftReplicationContext: what replication needs of a broker that has KRaft controllers.

AlterPartition goes to the leading controller, on a connection of its own as in Apache Kafka.  The
metadata have the epoch of each broker, so a leader knows which followers may join an ISR (KIP-903):

    the broker is not fenced, and not in a controlled shutdown
    it has fetched from this leader, and its last Fetch named the epoch of its present
    registration, or none (-1)

A Fetch with the epoch of an earlier registration is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cluster.peers.error import PeerError
from kwire.cluster.replication.context import ReplicationContext
from kwire.storage.partitions.progress import UNKNOWN_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.broker.node import Node
    from kwire.cluster.peers.peer import Peer
    from kwire.cluster.stores.kraft.living import Calls
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.storage.partitions.progress import Follower

ALTER_PARTITION_TIMEOUT_MS: Final = 30_000
"""How long one AlterPartition is sent again to controllers that do not answer.  Proposals that
partitions have dropped meanwhile are then left out of the next."""
NO_EPOCH: Final = -1


class KraftReplicationContext(ReplicationContext):
    """One per broker.  Raises ConfigError as ReplicationContext."""

    def __init__(self, node: Node, channel: Calls, broker_epoch: Callable[[], int]) -> None:
        """`channel` reaches the leading controller.

        `broker_epoch` returns the epoch of this broker's registration, -1 before the first.
        """
        super().__init__(node)
        self._channel = channel
        self._registered_epoch = broker_epoch

    @property
    def own_isr_epoch(self) -> int:
        return self.broker_epoch

    def is_eligible(self, follower: Follower) -> bool:
        broker = self.image.brokers.get(follower.broker_id)
        return (
            broker is not None
            and follower.log_end_offset != UNKNOWN_OFFSET
            and not broker.is_leaving
            and follower.broker_epoch in (NO_EPOCH, broker.epoch)
        )

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and NO_EPOCH != broker_epoch < broker.epoch

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The response of the leading controller.  Raises PeerError.

        Names the brokers of an ISR by rising ids, as Apache Kafka's leaders do: the order is kept
        in the metadata.
        """
        for topic in request.topics:
            for partition in topic.partitions:
                partition.new_isr_with_epochs.sort(key=lambda member: member.broker_id)
        response: AlterPartitionResponse
        response = await self._channel.call(request, ALTER_PARTITION_TIMEOUT_MS)
        return response

    def controller(self) -> Peer:
        """Raises PeerError: requests to the controllers have channels of their own."""
        raise PeerError("the controller", "no broker is the controller")
