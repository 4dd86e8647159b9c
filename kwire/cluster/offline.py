"""What a broker that is its own controller decides when one of its disks fails, or is back.

A partition whose log is offline has no leader, and nobody in sync; its replica is named as offline.
Each change of the leader is a new leader epoch.  (Kafka's ReplicationControlManager.)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kwire.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage


def with_offline(
    image: ClusterImage, node_id: int, offline: Collection[tuple[str, int]]
) -> ClusterImage:
    """`image` with just the partitions `offline` of `node_id`'s without a leader.

    They are (topic, partition).  The same image if nothing changes.
    """
    changed = []
    for topic in image.topics.values():
        partitions = tuple(
            _decided(state, node_id, offline=(topic.name, index) in offline)
            for index, state in enumerate(topic.partitions)
        )
        if partitions != topic.partitions:
            changed.append(TopicImage(topic.name, topic.id, partitions))
    return image.with_topics(changed) if changed else image


def _decided(state: PartitionImage, node_id: int, *, offline: bool) -> PartitionImage:
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
