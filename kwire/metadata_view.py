"""The cluster as clients of one listener see it: what Metadata and its kin answer from.

Topics are turned into response objects when they are first asked for and kept as long as the image
is current, since Metadata is the request that every client repeats.  What is kept is shared between
responses: nobody may change it.
"""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from kwire.metadata.topic_names import INTERNAL_TOPICS


def leader_seen(
    image: ClusterImage, partition: PartitionImage, listener: str
) -> tuple[ErrorCode, int]:
    """The leader that clients of `listener` are told, and the error if they cannot reach it."""
    broker = image.brokers.get(partition.leader)
    if broker is None:
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    if broker.endpoint(listener) is None:
        return ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return ErrorCode.NONE, partition.leader


def offline_replicas(image: ClusterImage, partition: PartitionImage) -> list[int]:
    """Replicas that cannot serve: their broker is not there, or its disk failed."""
    return [
        replica
        for replica in partition.replicas
        if replica not in image.brokers or replica in partition.offline
    ]


class MetadataView:
    """One image, told to one listener's clients in the terms of one range of Metadata versions.

    Before v6 there is no LISTENER_NOT_FOUND: such a leader is just not available.
    """

    __slots__ = ("_knows_listeners", "_topics", "brokers", "image", "listener")

    def __init__(self, image: ClusterImage, listener: str, knows_listeners: bool) -> None:
        self.image = image
        self.listener = listener
        self._knows_listeners = knows_listeners
        self._topics: dict[str, MetadataResponseTopic] = {}
        self.brokers = [
            MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker in image.brokers.values()
            if (endpoint := broker.endpoint(listener)) is not None
        ]

    def topic(self, name: str) -> MetadataResponseTopic | None:
        """The topic as a response has it, None if it does not exist."""
        found = self._topics.get(name)
        if found is None:
            topic = self.image.topics.get(name)
            if topic is None:
                return None
            found = self._topics[name] = self._told(topic)
        return found

    def _told(self, topic: TopicImage) -> MetadataResponseTopic:
        partitions = [
            self._partition(index, partition) for index, partition in enumerate(topic.partitions)
        ]
        return MetadataResponseTopic(
            ErrorCode.NONE, topic.name, topic.id, topic.name in INTERNAL_TOPICS, partitions
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        error, leader = leader_seen(self.image, partition, self.listener)
        if error == ErrorCode.LISTENER_NOT_FOUND and not self._knows_listeners:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponsePartition(
            error,
            index,
            leader,
            partition.leader_epoch,
            list(partition.replicas),
            list(partition.isr),
            offline_replicas(self.image, partition),
        )


_views: dict[tuple[str, bool], MetadataView] = {}
"""The latest view of each kind; a broker has a handful of listeners, so this stays small."""


def view_of(image: ClusterImage, listener: str, knows_listeners: bool) -> MetadataView:
    """The view of `image`, made once for all requests that ask the same way."""
    key = listener, knows_listeners
    view = _views.get(key)
    if view is None or view.image is not image:
        view = _views[key] = MetadataView(image, listener, knows_listeners)
    return view
