"""The partitions for which the share coordinator stores state of a share group.

initialized   the share coordinator has state; only these partitions are assigned to members
initializing  a request to initialize the state was sent; if it gets no answer in time, the next
              heartbeat repeats it
deleting      topics whose state the share coordinator has to delete
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.coordinator.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kwire.groups.share.records import StatePartitions

NEVER_MS = 0

Places = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""


@dataclass(frozen=True, slots=True)
class StateTopicPartitions:
    """Partitions of topics, with the names of the topics."""

    partitions: Places = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)

    def of(self, topic_id: bytes) -> frozenset[int]:
        return self.partitions.get(topic_id, frozenset())

    def merged_with(self, other: StateTopicPartitions) -> StateTopicPartitions:
        ids = {**self.partitions, **other.partitions}
        union = {topic_id: self.of(topic_id) | other.of(topic_id) for topic_id in ids}
        return StateTopicPartitions(union, {**self.names, **other.names})

    def minus(self, other: Places) -> StateTopicPartitions:
        """Return the partitions that are not in `other`."""
        left = {
            topic_id: these - other.get(topic_id, frozenset())
            for topic_id, these in self.partitions.items()
        }
        return self.only(left)

    def without(self, topic_ids: Iterable[bytes]) -> StateTopicPartitions:
        gone = set(topic_ids)
        return self.only({t: these for t, these in self.partitions.items() if t not in gone})

    def only(self, partitions: Places) -> StateTopicPartitions:
        """These partitions; topics without any are left out."""
        left = {topic_id: these for topic_id, these in partitions.items() if these}
        return StateTopicPartitions(left, {topic_id: self.names[topic_id] for topic_id in left})

    def listed(self) -> list[TopicPartitionsInfo]:
        """Return the partitions as a record has them, sorted by index."""
        return [
            TopicPartitionsInfo(topic_id, self.names[topic_id], sorted(these))
            for topic_id, these in self.partitions.items()
        ]


NOTHING = StateTopicPartitions()


@dataclass(frozen=True, slots=True)
class StateTopics:
    """See the module.  Immutable: a change makes a new one."""

    initializing: StateTopicPartitions = NOTHING
    initialized: StateTopicPartitions = NOTHING
    deleting: Mapping[bytes, str] = field(default_factory=dict)
    """Topic id -> name."""
    asked_ms: int = field(default=NEVER_MS, compare=False)
    """Time of the last request to the share coordinator.  It is not in the log: after a restart the
    request is repeated at once."""

    @property
    def is_empty(self) -> bool:
        return not (self.initializing.partitions or self.initialized.partitions or self.deleting)

    @property
    def known(self) -> StateTopicPartitions:
        """Partitions for which the share coordinator has state, or may have."""
        return self.initialized.merged_with(self.initializing)

    def to_initialize(
        self, names: Iterable[str], image: ClusterImage, now_ms: int, retry_ms: int
    ) -> StateTopicPartitions:
        """Partitions of topics that need a request: not initialized, and no request is pending."""
        known = self.initialized
        if now_ms - self.asked_ms < retry_ms:
            known = known.merged_with(self.initializing)
        partitions: dict[bytes, frozenset[int]] = {}
        topic_names: dict[bytes, str] = {}
        for topic in filter(None, map(image.topics.get, names)):
            missing = frozenset(range(len(topic.partitions))) - known.of(topic.id)
            if missing:
                partitions[topic.id] = missing
                topic_names[topic.id] = topic.name
        return StateTopicPartitions(partitions, topic_names)

    def with_request(self, topics: StateTopicPartitions, now_ms: int) -> StateTopics:
        """Return the partitions after a request to initialize `topics`.

        A pending deletion of these topics is cancelled.
        """
        deleting = {t: name for t, name in self.deleting.items() if t not in topics.partitions}
        return replace(
            self,
            initializing=self.initializing.merged_with(topics),
            deleting=deleting,
            asked_ms=now_ms,
        )

    def with_initialized(self, topics: StateTopicPartitions) -> StateTopics:
        """Return the partitions after the share coordinator has initialized `topics`."""
        return replace(
            self,
            initializing=self.initializing.minus(topics.partitions),
            initialized=self.initialized.merged_with(topics),
        )

    def with_refused(self, places: Places) -> StateTopics:
        """Return the partitions after the share coordinator has refused to initialize `places`.

        The next heartbeat sends the request again.
        """
        return replace(self, initializing=self.initializing.minus(places))

    def deleting_state_of(self, topics: Mapping[bytes, str]) -> StateTopics:
        """Return the partitions after a request to delete the state of `topics` (id -> name)."""
        return replace(
            self,
            initializing=self.initializing.without(topics),
            initialized=self.initialized.without(topics),
            deleting={**self.deleting, **topics},
        )

    def without(self, topic_ids: Iterable[bytes]) -> StateTopics:
        """Return the partitions without topics that were deleted.

        Either the topics were deleted from the cluster, or the share coordinator has deleted their
        state.
        """
        gone = set(topic_ids)
        return replace(
            self,
            initializing=self.initializing.without(gone),
            initialized=self.initialized.without(gone),
            deleting={t: name for t, name in self.deleting.items() if t not in gone},
        )

    # -- record

    def to_record(self, group_id: str) -> StatePartitionsAsked:
        """Return the record of these partitions; it keeps the time of the request in memory."""
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=self.initializing.listed(),
            initialized_topics=self.initialized.listed(),
            deleting_topics=[TopicInfo(*each) for each in self.deleting.items()],
        )
        key = ShareGroupStatePartitionMetadataKey(group_id)
        return StatePartitionsAsked(key, value, self.asked_ms)

    @classmethod
    def of(cls, record: StatePartitions) -> StateTopics:
        """Return the partitions that a record holds, none for a tombstone.

        After a load the time of the request is unknown: the next heartbeat repeats the request.
        """
        value = record.value
        if value is None:
            return cls()
        return cls(
            initializing=_read(value.initializing_topics),
            initialized=_read(value.initialized_topics),
            deleting={topic.topic_id: topic.topic_name for topic in value.deleting_topics},
            asked_ms=record.asked_ms if isinstance(record, StatePartitionsAsked) else NEVER_MS,
        )


NO_STATE_TOPICS = StateTopics()


@dataclass(slots=True)
class StatePartitionsAsked(StatePartitions):
    """The record as it is written, plus the time of the request, which is not in the log."""

    asked_ms: int = NEVER_MS


def _read(topics: Iterable[TopicPartitionsInfo]) -> StateTopicPartitions:
    """Return the partitions that a record lists."""
    listed = list(topics)
    return StateTopicPartitions(
        {topic.topic_id: frozenset(topic.partitions) for topic in listed},
        {topic.topic_id: topic.topic_name for topic in listed},
    )
