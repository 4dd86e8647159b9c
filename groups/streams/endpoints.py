"""The partitions of each process's endpoint: interactive queries of state go there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)
from kwire.groups.streams.configuring import ConfiguredTopology
from kwire.groups.streams.member import StreamsMember


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, image: ClusterImage
) -> list[EndpointToPartitions]:
    """The partitions of each member that has an endpoint.

    Members of one process have the same endpoint, and an entry each.
    """
    return [
        EndpointToPartitions(
            Endpoint(*member.endpoint),
            _partitions(member.assigned.active, configured, image),
            _partitions(member.assigned.followed, configured, image),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, image: ClusterImage
) -> list[TopicPartition]:
    """The partitions of the topics that the tasks read.

    A topic has none of the tasks whose number it has no partition for.
    """
    partitions = []
    for subtopology_id in sorted(tasks):
        subtopology = configured.subtopologies.get(subtopology_id)
        for name in () if subtopology is None else sorted(subtopology.sources):
            topic = image.topics.get(name)
            count = 0 if topic is None else len(topic.partitions)
            numbers = sorted(number for number in tasks[subtopology_id] if number < count)
            if numbers:
                partitions.append(TopicPartition(name, numbers))
    return partitions
