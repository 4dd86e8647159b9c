"""The metadata as the clients of one listener see it, from which Metadata is answered.

A topic becomes a response object at its first request, and is kept until the topic changes, because
every client repeats Metadata.  Responses share these objects, so nobody may change them.  Many
topics together are also kept as bytes (kwire.cluster.metadata.encoded).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.encoded import PARTITIONS_AT_ONCE, EncodedTopics
from kwire.cluster.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

KEPT_VERSIONS_MAX = 4
"""Versions of Metadata for which a view keeps all topics as bytes; the least recently used one
goes.  10,000 topics of one partition take 0.6 MB."""

KEPT_BYTES_MAX = 16 << 20
"""The most bytes that are kept for one version; more are written again for each response."""


def leader_seen(
    image: ClusterImage, partition: PartitionImage, listener: str
) -> tuple[ErrorCode, int]:
    """Return an error and the leader, as clients of `listener` see it.

    The error says why they cannot reach the leader; it is NONE otherwise.
    """
    broker = image.brokers.get(partition.leader)
    if broker is None:
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    if broker.endpoint(listener) is None:
        return ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return ErrorCode.NONE, partition.leader


def offline_replicas(image: ClusterImage, partition: PartitionImage) -> list[int]:
    """Return the replicas that cannot serve: their broker or their log directory failed."""
    offline = [
        replica
        for replica in partition.replicas
        if replica not in image.brokers or replica in partition.offline
    ]
    if not partition.directories:
        return offline
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if replica in offline or not image.brokers[replica].has_online(directory)
    ]


class MetadataView:
    """One image as the clients of one listener see it, for a range of Metadata versions.

    Before v6 there is no LISTENER_NOT_FOUND; such a leader is LEADER_NOT_AVAILABLE.  While the
    image has no broker, because the controller has not sent any yet, the view has `own`, this
    broker: librdkafka drops all brokers that a response does not name, and could ask nobody after
    an empty one.
    """

    __slots__ = (
        "_all",
        "_encoded",
        "_is_long",
        "_knows_listeners",
        "_names",
        "_topics",
        "brokers",
        "image",
        "listener",
    )

    def __init__(
        self, image: ClusterImage, listener: str, knows_listeners: bool, own: BrokerImage
    ) -> None:
        """The view of `image` for clients of `listener`.

        `knows_listeners`: the Metadata versions know the error LISTENER_NOT_FOUND.  `own` is this
        broker, which is shown while the image has no brokers yet.
        """
        self.image = image
        self.listener = listener
        self._knows_listeners = knows_listeners
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._names: list[str] | None = None
        self._all: list[MetadataResponseTopic] | None = None
        self._encoded: dict[int, EncodedTopics] = {}
        self._is_long: bool | None = None
        self.brokers = self.shown(image.brokers.values() or (own,))

    def shown(self, brokers: Iterable[BrokerImage]) -> list[MetadataResponseBroker]:
        """These brokers as a Metadata response has them, without those that have no such
        listener."""
        return [
            MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker in brokers
            if (endpoint := broker.endpoint(self.listener)) is not None
        ]

    def topic(self, name: str) -> MetadataResponseTopic | None:
        """Return the topic's part of a Metadata response; None if the topic does not exist."""
        response = self._topics.get(name)
        if response is None:
            topic = self.image.topics.get(name)
            if topic is None:
                return None
            response = self._topics[name] = self._response(topic)
        return response

    @property
    def response_count(self) -> int:
        """How many topics have been turned into response objects."""
        return len(self._topics)

    def names(self) -> list[str]:
        """All topic names, sorted; not to be changed."""
        if self._names is None:
            self._names = sorted(self.image.topics)
        return self._names

    def all_topics(self) -> list[MetadataResponseTopic]:
        """Return the parts of all topics, sorted by name; not to be changed."""
        if self._all is None:
            topics = map(self.topic, self.names())
            self._all = [topic for topic in topics if topic is not None]
        return self._all

    @property
    def is_long(self) -> bool:
        """Whether it takes more than a step or two to write all topics."""
        if self._is_long is None:
            topics = self.image.topics
            size = len(topics)
            if size <= PARTITIONS_AT_ONCE:
                size = sum(len(topic.partitions) for topic in topics.values())
            self._is_long = size > PARTITIONS_AT_ONCE
        return self._is_long

    def encoded(self, version: int) -> EncodedTopics:
        """Return all topics as bytes for a version of Metadata; some may have to be written yet."""
        encoded = self._encoded.pop(version, None)
        if encoded is None:
            encoded = EncodedTopics(version, self.names, self.topic)
            if len(self._encoded) >= KEPT_VERSIONS_MAX:
                # One that is not complete has to follow the image: somebody writes it.
                complete = [each for each in self._encoded.values() if each.is_complete]
                for least_recent in complete[:1]:
                    del self._encoded[least_recent.version]
        self._encoded[version] = encoded  # now the last one: the most recently used
        return encoded

    def limit_encoded(self, encoded: EncodedTopics) -> None:
        """Do not keep these complete bytes if there are more than KEPT_BYTES_MAX."""
        if encoded.size_bytes > KEPT_BYTES_MAX and self._encoded.get(encoded.version) is encoded:
            del self._encoded[encoded.version]

    def follow(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Updates this view to `image`, the result of `delta`, which must not change brokers."""
        assert not delta.brokers
        before, self.image = self.image, image
        for name in delta.deleted.keys() | delta.topics.keys():
            self._topics.pop(name, None)
            self._all = self._is_long = None
            for encoded in self._encoded.values():
                encoded.forget(name)
            if self._names is not None:
                _correct(self._names, name, name in before.topics, name in image.topics)

    def _response(self, topic: TopicImage) -> MetadataResponseTopic:
        """Return the part of the Metadata response about one topic."""
        partitions = [
            self._partition(index, partition)
            for index, partition in enumerate(topic.partitions)
            if partition.replicas  # else the controller has not sent it yet, or deletes it
        ]
        return MetadataResponseTopic(
            ErrorCode.NONE, topic.name, topic.id, topic.name in INTERNAL_TOPICS, partitions
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        """Return the part of the Metadata response about one partition.

        If the leader has no endpoint on this listener, old versions get LEADER_NOT_AVAILABLE.
        """
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


def _correct(names: list[str], name: str, was_there: bool, is_there: bool) -> None:
    """Update a sorted list of names after a change of one topic."""
    if was_there and not is_there:
        del names[bisect_left(names, name)]
    elif is_there and not was_there:
        insort(names, name)


class MetadataViews:
    """The latest view of each listener and version range; they are few."""

    def __init__(self, own: BrokerImage) -> None:
        self._own = own
        self._views: dict[tuple[str, bool], MetadataView] = {}

    def of(self, image: ClusterImage, listener: str, knows_listeners: bool) -> MetadataView:
        """The view of `image`, shared by all requests of that listener and version range."""
        key = listener, knows_listeners
        view = self._views.get(key)
        if view is None or view.image is not image:
            view = self._views[key] = MetadataView(image, listener, knows_listeners, self._own)
        return view

    def follow(self, before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> None:
        """Update the views from `before` to `image`; topics that `delta` does not name are kept."""
        for key, view in list(self._views.items()):
            if delta.brokers or view.image is not before:
                del self._views[key]
            else:
                view.follow(image, delta)
