"""Which partitions the share coordinator keeps a group's state of.

A partition is given to members once the share coordinator has been told of it (`initialized`).
Until then it is `initializing`: the request is on its way; one that got no answer in time is made
again with the next heartbeat.  `deleting` are topics that the share coordinator is to forget.
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
class Topics:
    """Partitions of topics, and what the topics are called."""

    partitions: Places = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)

    def of(self, topic_id: bytes) -> frozenset[int]:
        return self.partitions.get(topic_id, frozenset())

    def having(self, other: Topics) -> Topics:
        ids = {**self.partitions, **other.partitions}
        union = {topic_id: self.of(topic_id) | other.of(topic_id) for topic_id in ids}
        return Topics(union, {**self.names, **other.names})

    def lacking(self, other: Places) -> Topics:
        left = {
            topic_id: these - other.get(topic_id, frozenset())
            for topic_id, these in self.partitions.items()
        }
        return self.only(left)

    def without(self, topic_ids: Iterable[bytes]) -> Topics:
        gone = set(topic_ids)
        return self.only({t: these for t, these in self.partitions.items() if t not in gone})

    def only(self, partitions: Places) -> Topics:
        """Of the partitions that are left, topics with any."""
        left = {topic_id: these for topic_id, these in partitions.items() if these}
        return Topics(left, {topic_id: self.names[topic_id] for topic_id in left})

    def listed(self) -> list[TopicPartitionsInfo]:
        return [
            TopicPartitionsInfo(topic_id, self.names[topic_id], sorted(these))
            for topic_id, these in self.partitions.items()
        ]


NOTHING = Topics()


@dataclass(frozen=True, slots=True)
class StateTopics:
    """See the module.  It is never changed, only replaced."""

    initializing: Topics = NOTHING
    initialized: Topics = NOTHING
    deleting: Mapping[bytes, str] = field(default_factory=dict)
    """Topic id -> name."""
    asked_ms: int = field(default=NEVER_MS, compare=False)
    """When the share coordinator was asked last; not in the log, so after a restart it is again."""

    @property
    def is_empty(self) -> bool:
        return not (self.initializing.partitions or self.initialized.partitions or self.deleting)

    @property
    def known(self) -> Topics:
        """What the share coordinator has, or may have."""
        return self.initialized.having(self.initializing)

    def to_initialize(
        self, names: Iterable[str], image: ClusterImage, now_ms: int, retry_ms: int
    ) -> Topics:
        """Partitions of those topics that the share coordinator does not know, nor will soon."""
        known = self.initialized
        if now_ms - self.asked_ms < retry_ms:
            known = known.having(self.initializing)
        found: dict[bytes, frozenset[int]] = {}
        called: dict[bytes, str] = {}
        for topic in filter(None, map(image.topics.get, names)):
            missing = frozenset(range(len(topic.partitions))) - known.of(topic.id)
            if missing:
                found[topic.id] = missing
                called[topic.id] = topic.name
        return Topics(found, called)

    def asked(self, topics: Topics, now_ms: int) -> StateTopics:
        """The share coordinator is asked for them; it is not to forget them any longer."""
        deleting = {t: name for t, name in self.deleting.items() if t not in topics.partitions}
        return replace(
            self,
            initializing=self.initializing.having(topics),
            deleting=deleting,
            asked_ms=now_ms,
        )

    def answered(self, topics: Topics) -> StateTopics:
        """The share coordinator has them."""
        return replace(
            self,
            initializing=self.initializing.lacking(topics.partitions),
            initialized=self.initialized.having(topics),
        )

    def refused(self, places: Places) -> StateTopics:
        """The share coordinator does not have them: it will be asked again."""
        return replace(self, initializing=self.initializing.lacking(places))

    def forgetting(self, topics: Mapping[bytes, str]) -> StateTopics:
        """The share coordinator is asked to forget all of these topics."""
        return replace(
            self,
            initializing=self.initializing.without(topics),
            initialized=self.initialized.without(topics),
            deleting={**self.deleting, **topics},
        )

    def without(self, topic_ids: Iterable[bytes]) -> StateTopics:
        """Topics are gone from the cluster, or forgotten by the share coordinator."""
        gone = set(topic_ids)
        return replace(
            self,
            initializing=self.initializing.without(gone),
            initialized=self.initialized.without(gone),
            deleting={t: name for t, name in self.deleting.items() if t not in gone},
        )

    # -- its record

    def to_record(self, group_id: str) -> StatePartitionsAsked:
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=self.initializing.listed(),
            initialized_topics=self.initialized.listed(),
            deleting_topics=[TopicInfo(*each) for each in self.deleting.items()],
        )
        key = ShareGroupStatePartitionMetadataKey(group_id)
        return StatePartitionsAsked(key, value, self.asked_ms)

    @classmethod
    def of(cls, record: StatePartitions) -> StateTopics:
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
    """The record as it is written, with what is not in the log."""

    asked_ms: int = NEVER_MS


def _read(topics: Iterable[TopicPartitionsInfo]) -> Topics:
    listed = list(topics)
    return Topics(
        {topic.topic_id: frozenset(topic.partitions) for topic in listed},
        {topic.topic_id: topic.topic_name for topic in listed},
    )
