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
    """The partitions of each member that has an endpoint."""
    return [
        EndpointToPartitions(
            Endpoint(*member.endpoint),
            _partitions(member.assigned.active, configured, image),
            _partitions(member.assigned.standby, configured, image),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, image: ClusterImage
) -> list[TopicPartition]:
    """The partitions of the topics that the tasks read.

    As in Apache Kafka, a topic with N partitions gets at most the first N numbers of the tasks.
    """
    partitions = []
    for subtopology_id in sorted(tasks):
        subtopology = configured.subtopologies.get(subtopology_id)
        numbers = sorted(tasks[subtopology_id])
        for name in () if subtopology is None else sorted(subtopology.sources):
            topic = image.topics.get(name)
            if topic is not None:
                partitions.append(TopicPartition(name, numbers[: len(topic.partitions)]))
    return partitions
