"""The share coordinator of this broker: where the state of a share partition lives.

It lives in the partition of `__share_group_state` that its group, topic id and number hash to, and
is served by that partition's leader.  Each operation gives an Answer, or a promise of one where its
records have to be committed first.  Before it reaches its state a request is told

    the partition is led by another broker, or does not exist    NOT_COORDINATOR
    the partition is still being replayed                        COORDINATOR_LOAD_IN_PROGRESS
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
from kwire.coordinators.share.machine import Answer, Effects, ShareStateMachine
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import Written
from kwire.groups.java import partition_for
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.broker.node import Node

SENTENCES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process "
    "requests.",
}
"""Apache Kafka's."""

Reply = Answer | Promise[Answer]
Decide = Callable[[ShareStateMachine, Ticket, int], Effects]


class ShareCoordinator:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Partitions are loaded by tasks of the node's nursery."""
        config = node.settings.static_config
        self._node = node
        updates = config.share_coordinator_snapshot_update_records_per_snapshot
        self.runtime = CoordinatorRuntime(
            lambda: ShareStateMachine(lambda: node.image, updates),
            timers=node.timers,
            now_ms=node.now_ms,
            commit_timeout_ms=config.share_coordinator_write_timeout_ms,
            compression=Compression(config.share_coordinator_state_topic_compression_codec),
        )

    # -- which partitions are led here

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition of `__share_group_state`: replay and serve it."""
        shard = self.runtime.lead(partition)
        if shard is not None:
            assert self._node.nursery is not None, "the broker has begun"
            self._node.nursery.start_soon(shard.load)

    def resign(self, index: int) -> None:
        """This broker does not lead that partition any longer."""
        self.runtime.resign(index)

    def topics_deleted(self, deleted: Sequence[tuple[str, bytes]]) -> None:
        """Forget what is known of topics (name, id) that are no more."""
        self.runtime.topics_deleted(deleted)

    # -- operations

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Reply:
        return self._submit(
            key,
            "initialize share group state",
            lambda machine, ticket, now_ms: machine.initialize(
                key, state_epoch, start_offset, ticket, now_ms
            ),
        )

    def read(self, key: ShareKey, leader_epoch: int) -> Reply:
        return self._submit(
            key,
            "read share group state",
            lambda machine, ticket, now_ms: machine.read(key, leader_epoch, ticket, now_ms),
        )

    def write(self, key: ShareKey, written: Written) -> Reply:
        return self._submit(
            key,
            "write share group state",
            lambda machine, ticket, now_ms: machine.write(key, written, ticket, now_ms),
        )

    def summary(self, key: ShareKey) -> Reply:
        return self._submit(
            key,
            "read share group state summary",
            lambda machine, ticket, _: machine.summary(key, ticket),
        )

    def delete(self, key: ShareKey) -> Reply:
        return self._submit(
            key,
            "delete share group state",
            lambda machine, ticket, _: machine.delete(key, ticket),
        )

    def _submit(self, key: ShareKey, what: str, decide: Decide) -> Reply:
        return self.runtime.submit(
            self.partition_for(key), decide, lambda error: _not_done(what, error)
        )

    def partition_for(self, key: ShareKey) -> int:
        """-1 while this broker was not told of the topic; it may lead partitions of it by then."""
        topic = self._node.image.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            return -1
        name = f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"
        return partition_for(name, len(topic.partitions))


def _not_done(what: str, error: ErrorCode) -> Answer:
    """What is told where no machine has decided, or where its records could not be written."""
    sentence = SENTENCES.get(error, error.name)
    return Answer(error, f"Unable to {what}: {sentence}")
