"""The share coordinator of this broker: stores the delivery state of share partitions.

The state of a share partition is stored in the partition of `__share_group_state` that its group,
topic id and partition number hash to; that partition's leader is the coordinator.  Each operation
returns a ShareStateAnswer, or a promise of one if records have to be committed first.

Errors that a request gets before it reaches its state:

    another broker leads the partition, or it does not exist    NOT_COORDINATOR
    the partition is still being replayed                       COORDINATOR_LOAD_IN_PROGRESS
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.uuids import uuid_text
from kwire.coordinators.contract.effects import Ticket
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.runtime.runtime import CoordinatorRuntime
from kwire.coordinators.share.machine import ShareStateAnswer, ShareStateEffects, ShareStateMachine
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareStateWrite
from kwire.groups.java import partition_for
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.broker.node import Node

ERROR_MESSAGES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process "
    "requests.",
}
"""Messages that Apache Kafka sends for these errors."""

Reply = ShareStateAnswer | Promise[ShareStateAnswer]
Decide = Callable[[ShareStateMachine, Ticket, int], ShareStateEffects]


class ShareCoordinator:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Partitions are loaded in tasks of the node's nursery."""
        config = node.settings.static_config
        self._node = node
        updates_per_snapshot = config.share_coordinator_snapshot_update_records_per_snapshot
        self.runtime = CoordinatorRuntime(
            lambda: ShareStateMachine(lambda: node.image, updates_per_snapshot),
            timers=node.timers,
            now_ms=node.now_ms,
            commit_timeout_ms=config.share_coordinator_write_timeout_ms,
            compression=Compression(config.share_coordinator_state_topic_compression_codec),
        )

    # -- which partitions are led here

    def lead(self, partition: Partition) -> None:
        """Replay and serve a partition of `__share_group_state` that this broker leads now."""
        shard = self.runtime.lead(partition)
        if shard is not None:
            self._node.running_nursery.start_soon(shard.load)

    def resign(self, index: int) -> None:
        """Stop serving a partition that this broker does not lead any more."""
        self.runtime.resign(index)

    def topics_deleted(self, deleted: Sequence[tuple[str, bytes]]) -> None:
        """Delete the state of topics (name, id) that were deleted."""
        self.runtime.topics_deleted(deleted)

    # -- operations

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Reply:
        """Stores a share partition's first state, or starts it over.

        It begins at `start_offset`, in `state_epoch`, without acquired records.
        """
        return self._submit(
            key,
            "initialize share group state",
            lambda machine, ticket, now_ms: machine.initialize(
                key, state_epoch, start_offset, ticket, now_ms
            ),
        )

    def read(self, key: ShareKey, leader_epoch: int) -> Reply:
        """Return the state to the leader in `leader_epoch`; fences earlier leaders."""
        return self._submit(
            key,
            "read share group state",
            lambda machine, ticket, now_ms: machine.read(key, leader_epoch, ticket, now_ms),
        )

    def write(self, key: ShareKey, written: ShareStateWrite) -> Reply:
        """Stores a change of a share partition's state."""
        return self._submit(
            key,
            "write share group state",
            lambda machine, ticket, now_ms: machine.write(key, written, ticket, now_ms),
        )

    def summary(self, key: ShareKey) -> Reply:
        """Return the state of a share partition for tools; fences nobody."""
        return self._submit(
            key,
            "read share group state summary",
            lambda machine, ticket, _: machine.summary(key, ticket),
        )

    def delete(self, key: ShareKey) -> Reply:
        """Removes the state of a share partition."""
        return self._submit(
            key,
            "delete share group state",
            lambda machine, ticket, _: machine.delete(key, ticket),
        )

    def _submit(self, key: ShareKey, operation: str, decide: Decide) -> Reply:
        return self.runtime.submit(
            self.partition_for(key), decide, lambda error: _refused(operation, error)
        )

    def partition_for(self, key: ShareKey) -> int:
        """Return the partition that stores the state; -1 while metadata lacks the topic.

        This broker may already lead partitions of the topic then.
        """
        topic = self._node.image.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            return -1
        name = f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"
        return partition_for(name, len(topic.partitions))


def _refused(operation: str, error: ErrorCode) -> ShareStateAnswer:
    """The answer if no machine could decide, or if its records could not be written."""
    message = ERROR_MESSAGES.get(error, error.name)
    return ShareStateAnswer(error, f"Unable to {operation}: {message}")
