"""The coordinators of one broker, by the internal topic that holds their records.

    __consumer_offsets     groups of all kinds and their offsets
    __transaction_state    transactions
    __share_group_state    delivery state of the records that share groups read

A coordinator is imported and created at first use: by a request, or when this broker becomes leader
of a partition of its topic.  Most brokers serve no transactions and no share groups.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from kwire.cluster.metadata.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.coordinators.runtime.groups import GroupCoordinator
    from kwire.coordinators.runtime.share import ShareCoordinator
    from kwire.coordinators.runtime.transactions import TransactionCoordinator
    from kwire.storage.partitions.partition import Partition

Coordinator: TypeAlias = "GroupCoordinator | TransactionCoordinator | ShareCoordinator"

UNKNOWN: Final = 0
"""Partition count of `__consumer_offsets` while this broker's metadata does not have the topic."""

_MODULES: Final = {
    GROUP_METADATA_TOPIC: (
        "kwire.coordinators.runtime.groups",
        "kwire.coordinators.runtime.surroundings",
    ),
    TRANSACTION_STATE_TOPIC: ("kwire.coordinators.runtime.transactions",),
    SHARE_GROUP_STATE_TOPIC: ("kwire.coordinators.runtime.share",),
}
"""The modules of the coordinator that each topic belongs to."""


class Coordinators:
    """See the module.  Subscribes to the node's leadership changes and metadata when created."""

    def __init__(self, node: Node) -> None:
        """The coordinators themselves are created at their first use."""
        self._node = node
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._share: ShareCoordinator | None = None
        self.on_groups: Callable[[GroupCoordinator], None] | None = None
        """Called with the group coordinator when it is created, before it leads a partition."""
        self._by_topic: dict[str, Callable[[], Coordinator]] = {
            GROUP_METADATA_TOPIC: lambda: self.groups,
            TRANSACTION_STATE_TOPIC: lambda: self.transactions,
            SHARE_GROUP_STATE_TOPIC: lambda: self.share,
        }
        node.hosted.on_leadership_change = self.leadership_changed
        node.metadata.follow(self._follow)

    @staticmethod
    async def import_for(topic: str) -> None:
        """Let a thread import the coordinator of a topic that is about to be created.

        Its leader makes the coordinator on the loop, where the import would take 50 ms and more.
        """
        for module in _MODULES[topic]:
            await trio.to_thread.run_sync(import_module, module)

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, which is created at the first use."""
        if self._groups is None:
            # Here: a broker that no group uses starts faster without these modules.
            from kwire.coordinators.runtime.groups import GroupCoordinator
            from kwire.coordinators.runtime.surroundings import BrokerSurroundings

            node = self._node
            self._groups = GroupCoordinator.configured(
                node.config,
                partitions=self._offsets_partitions(),
                timers=node.timers,
                now_ms=node.now_ms,
                surroundings=BrokerSurroundings(node.settings, node.metadata),
            )
            if self.on_groups is not None:
                self.on_groups(self._groups)
            if node.nursery is not None:
                self._groups.start(node.nursery)
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, which is created at the first use."""
        if self._transactions is None:
            from kwire.coordinators.runtime.transactions import TransactionCoordinator

            self._transactions = TransactionCoordinator(self._node, lambda: self.groups)
        return self._transactions

    @property
    def share(self) -> ShareCoordinator:
        """The share coordinator, which is created at the first use."""
        if self._share is None:
            from kwire.coordinators.runtime.share import ShareCoordinator

            self._share = ShareCoordinator(self._node)
        return self._share

    @property
    def groups_if_any(self) -> GroupCoordinator | None:
        """`groups`, or None if nobody has used it yet."""
        return self._groups

    @property
    def transactions_if_any(self) -> TransactionCoordinator | None:
        """`transactions`, or None if nobody has used it yet."""
        return self._transactions

    @property
    def share_if_any(self) -> ShareCoordinator | None:
        """`share`, or None if nobody has used it yet."""
        return self._share

    def leadership_changed(self, partition: Partition) -> None:
        """Makes the coordinator of the partition's topic lead the partition, or resign.

        The new leader decides which.
        """
        coordinator_of = self._by_topic.get(partition.topic)
        if coordinator_of is None:
            return
        if partition.is_leader:
            coordinator_of().lead(partition)
        else:
            coordinator_of().resign(partition.index)

    def write_deferred(self) -> None:
        """Append the records that wait for others: the log has all of the coordinators' state then.

        kwire.coordinators.runtime.deferring explains them.
        """
        if self._transactions is not None:
            self._transactions.runtime.deferrals.write_all()

    def resign(self, partition: Partition) -> None:
        """Resigns from a partition whose disk failed here: another broker will lead it.

        The controller sends no request in this case, because this broker answers its requests for
        the partition with KAFKA_STORAGE_ERROR.
        """
        coordinator_of = self._by_topic.get(partition.topic)
        if coordinator_of is not None:
            coordinator_of().resign(partition.index)

    def _follow(self, _: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> None:
        """Tells the coordinators which topics were deleted, after a metadata change.

        Also updates the number of partitions of `__consumer_offsets`, which decides the partition
        of each group.
        """
        deleted = [*delta.deleted.items()]
        if deleted and self._groups is not None:
            self._groups.topics_deleted(deleted)
        if deleted and self._share is not None:
            self._share.topics_deleted(deleted)
        is_changed = GROUP_METADATA_TOPIC in delta.topics or GROUP_METADATA_TOPIC in delta.deleted
        if is_changed and self._groups is not None:
            self._groups.partitions = self._offsets_partitions()

    def _offsets_partitions(self) -> int:
        """Return the partition count of `__consumer_offsets`.

        In a cluster, UNKNOWN until metadata has the topic.  This broker may already lead some of
        its partitions then, because LeaderAndIsr arrives before UpdateMetadata.  It must not guess:
        the broker that created the topic may have another `offsets.topic.num.partitions`.
        A broker without a cluster creates the topic itself, so its own setting is right.
        """
        topic = self._node.image.topics.get(GROUP_METADATA_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        is_alone = self._node.peers is None
        return self._node.config.offsets_topic_num_partitions if is_alone else UNKNOWN
