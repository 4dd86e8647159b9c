"""More partitions for an existing topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.cluster.decisions.topic_creation import PARTITIONS_MAX, too_many_partitions
from kwire.cluster.metadata.changes import AddPartitions
from kwire.cluster.metadata.cordoning import cordoned_brokers, uncordoned_brokers
from kwire.cluster.metadata.image import ClusterImage, PartitionImage
from kwire.cluster.metadata.placement import (
    check_manual_assignment,
    new_partition,
    place_more_partitions,
)
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Growth:
    """The number of partitions that a topic shall have.

    `assignments` are the replicas of the new partitions, if the client gave them.
    """

    topic: str
    count: int
    assignments: Sequence[list[int]] | None = None

    def decide(self, image: ClusterImage) -> AddPartitions:
        """The change that adds the partitions.  Raises Refusal."""
        topic = image.topics.get(self.topic)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        have = len(topic.partitions)
        if self.count == have:
            raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
        if self.count < have:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {have} partition(s); {self.count} would not "
                "be an increase.",
            )
        count = self.count - have
        if count > PARTITIONS_MAX:
            raise too_many_partitions()
        size = len(topic.partitions[0].replicas)
        if self.assignments is None:
            added = place_more_partitions(uncordoned_brokers(image), count, topic.partitions)
        else:
            added = _assigned(image, self.assignments, count, size)
        return AddPartitions(topic.name, topic.id, have, tuple(added))


def _assigned(
    image: ClusterImage, assigned: Sequence[list[int]], count: int, size: int
) -> list[PartitionImage]:
    """Return `count` new partitions with the replicas that the request assigns.

    `size` is the topic's replication factor, which each assignment must have.  Raises Refusal.
    """
    if len(assigned) != count:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count} additional partition(s), but only {len(assigned)} "
            "assignment(s) were specified.",
        )
    for replicas in assigned:
        check_manual_assignment(replicas, image.brokers, cordoned_brokers(image), size)
    return [new_partition(replicas) for replicas in assigned]
