"""Clusters of topics for groups without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage

_ONE = PartitionImage(leader=0, leader_epoch=0, partition_epoch=0, replicas=(0,), isr=(0,))


def put(
    image: ClusterImage, name: str, partitions: int, replicas: Sequence[Sequence[int]] = ()
) -> tuple[ClusterImage, bytes]:
    """The cluster with a topic that is new or grows, and its id; `replicas`: of the first ones."""
    known = image.topics.get(name)
    topic_id = (image.version + 1).to_bytes(16) if known is None else known.id
    placed = tuple(replace(_ONE, replicas=tuple(these)) for these in replicas)
    topic = TopicImage(name, topic_id, placed + (_ONE,) * (partitions - len(placed)))
    return replace(
        image,
        topics=image.topics.having([(name, topic)]),
        names_by_id=image.names_by_id.having([(topic_id, name)]),
        version=image.version + 1,
    ), topic_id


def deleted(image: ClusterImage, name: str) -> ClusterImage:
    return replace(
        image,
        topics=image.topics.without([name]),
        names_by_id=image.names_by_id.without([image.topics[name].id]),
        version=image.version + 1,
    )
