"""Which process has which partitions of which topics: who queries state asks there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)
from kwire.groups.streams.configuring import Configured
from kwire.groups.streams.member import StreamsMember


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: Configured, image: ClusterImage
) -> list[EndpointToPartitions]:
    """Of those members that have an endpoint."""
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
    tasks: Mapping[str, Iterable[int]], configured: Configured, image: ClusterImage
) -> list[TopicPartition]:
    """Of a topic that has fewer partitions than there are tasks, the first of these, as many."""
    found = []
    for subtopology in sorted(tasks):
        known, these = configured.subtopologies.get(subtopology), sorted(tasks[subtopology])
        for name in () if known is None else sorted(known.sources):
            topic = image.topics.get(name)
            if topic is not None:
                found.append(TopicPartition(name, these[: len(topic.partitions)]))
    return found
