"""The state of brokers and partitions that metadata records make, one after the other (pure)."""

from __future__ import annotations

from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.codecs.primitives import Message
from kwire.conformance.kraft.naming import UNASSIGNED

UNCHANGED = -2
NO_LEADER = -1
PARTITION_FIELDS = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)


class ClusterState:
    """What the records say of brokers and partitions: who is fenced, and who is in sync."""

    def __init__(self) -> None:
        self.unfenced: set[int] = set()
        self.partitions: dict[tuple[bytes, int], PartitionRecord] = {}
        self.topics: dict[bytes, str] = {}

    def apply(self, message: Message) -> None:
        """Apply the next record of the log."""
        match message:
            case RegisterBrokerRecord():
                self._fence(message.broker_id, 1 if message.fenced else -1)
            case BrokerRegistrationChangeRecord():
                self._fence(message.broker_id, message.fenced)
            case UnregisterBrokerRecord():
                self.unfenced.discard(message.broker_id)
            case TopicRecord():
                self.topics[bytes(message.topic_id)] = message.name
            case RemoveTopicRecord():
                topic_id = bytes(message.topic_id)
                del self.topics[topic_id]
                for at in [at for at in self.partitions if at[0] == topic_id]:
                    del self.partitions[at]
            case PartitionRecord():
                self.partitions[bytes(message.topic_id), message.partition_id] = message
            case PartitionChangeRecord():
                self._change(message)

    def _fence(self, broker_id: int, fenced: int) -> None:
        if fenced > 0:
            self.unfenced.discard(broker_id)
        elif fenced < 0:
            self.unfenced.add(broker_id)

    def _change(self, change: PartitionChangeRecord) -> None:
        partition = self.partitions[bytes(change.topic_id), change.partition_id]
        for name in PARTITION_FIELDS:
            value = getattr(change, name)
            if value is not None:
                setattr(partition, name, value)
        if change.leader != UNCHANGED:
            partition.leader = change.leader

    def partition(self, topic: str, index: int) -> PartitionRecord:
        """Return the partition of a topic that exists."""
        topic_id = self.topic_id(topic)
        return self.partitions[topic_id, index]

    def topic_id(self, name: str) -> bytes:
        return next(topic_id for topic_id, each in self.topics.items() if each == name)

    def is_whole(self, running: set[int]) -> bool:
        """Whether nothing is left to be done while exactly these brokers run.

        They are unfenced, and nobody else is.  Each running replica of a partition with a leader is
        in sync and has told its directory, and what can be reassigned is reassigned.
        """
        return self.unfenced == running and all(
            _is_whole(partition, running) for partition in self.partitions.values()
        )


def _is_whole(partition: PartitionRecord, running: set[int]) -> bool:
    if partition.leader == NO_LEADER:
        return not running & {*partition.isr}
    can_move = {*partition.adding_replicas} <= running
    is_moved = not partition.adding_replicas and not partition.removing_replicas
    return (
        {*partition.isr} == running & {*partition.replicas}
        and (is_moved or not can_move)
        and all(
            bytes(directory) != UNASSIGNED
            for broker_id, directory in zip(partition.replicas, partition.directories, strict=False)
            if broker_id in running
        )
    )
