"""What a broker that is its own controller decides when one of its disks fails, or is back.

A partition whose log is offline has no leader, and nobody in sync; its replica is named as offline.
Each change of the leader is a new leader epoch.  (Kafka's ReplicationControlManager.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from kwire.metadata.changes import AlterPartition, Decision
from kwire.metadata.image import NO_LEADER, ClusterImage, PartitionImage


def offline_decisions(
    image: ClusterImage, node_id: int, offline: Collection[tuple[str, int]]
) -> list[Decision]:
    """Decisions by which just the partitions `offline` of `node_id`'s have no leader.

    They are (topic, partition).  There is one for each that is not as it should be in `image`.
    """
    return [
        _decision(topic, index, node_id, (topic, index) in offline)
        for topic, index in _misjudged(image, node_id, offline)
    ]


def _misjudged(
    image: ClusterImage, node_id: int, offline: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            is_offline = (topic.name, index) in offline
            if decided(state, node_id, offline=is_offline) is not state:
                yield topic.name, index


def _decision(name: str, index: int, node_id: int, offline: bool) -> Decision:
    def decide(image: ClusterImage) -> AlterPartition | None:
        topic = image.topics.get(name)
        if topic is None or index >= len(topic.partitions):
            return None
        state = topic.partitions[index]
        wanted = decided(state, node_id, offline=offline)
        if wanted is state:
            return None
        return AlterPartition(name, topic.id, index, state.partition_epoch, wanted)

    return decide


def decided(state: PartitionImage, node_id: int, *, offline: bool) -> PartitionImage:
    """What a partition is when its log on `node_id` is offline, or is not; `state` if it is so."""
    if node_id not in state.replicas:
        return state
    if not offline and state.leader != NO_LEADER and node_id not in state.offline:
        return state
    if not offline:
        wanted = replace(state, leader=node_id, isr=(node_id,), offline=())
    else:
        wanted = replace(state, leader=NO_LEADER, isr=(), offline=(node_id,))
    if wanted == state:
        return state
    elected = wanted.leader != state.leader
    return replace(
        wanted,
        leader_epoch=state.leader_epoch + elected,
        partition_epoch=state.partition_epoch + 1,
    )
