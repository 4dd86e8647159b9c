"""Committed offsets: what each group has committed for each partition.

All of it is durable: an entry is what the last OffsetCommit record of its key says, apart from
those of open transactions (kwire.groups.pending_offsets).  Offsets are forgotten by OffsetDelete,
with their group, with their topic, and by time: `offsets.retention.ms` after the commit or after
the group lost its last member, or when the client said (v2-4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.groups.java import utf16
from kwire.groups.pending_offsets import OffsetPlace, PendingOffsets
from kwire.groups.records import OffsetCommit, offset_tombstone

NO_OFFSET = -1
NO_EXPIRY = -1
EXPIRY_MS_MAX = (1 << 63) - 1
"""What its record can hold: a client may ask for a retention of as much."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Times in ms since the epoch; `expire_timestamp_ms` -1: by the broker's retention."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    """Of the topic when the offset was committed; zero where an old version did not say."""


Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


class Offsets:
    """The committed offsets of the groups of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self.by_group: dict[str, Topics] = {}
        self.pending = PendingOffsets()

    def apply(self, record: OffsetCommit) -> None:
        place = _place(record)
        if record.value is None:
            self._remove(*place)
            self.pending.remove(place)
        else:
            self._put(place, _committed(record.value))
            self.pending.overtake(place)

    def apply_pending(self, record: OffsetCommit, producer_id: int) -> None:
        """As `apply`, for a record of the producer's open transaction."""
        if record.value is None:
            self.apply(record)
        else:
            self.pending.add(producer_id, _place(record), _committed(record.value))

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        for place, committed in self.pending.end(producer_id, commit):
            self._put(place, committed)

    def _put(self, place: OffsetPlace, committed: CommittedOffset) -> None:
        topics = self.by_group.get(place.group_id)
        if topics is None:
            topics = self.by_group[place.group_id] = {}
        partitions = topics.get(place.topic)
        if partitions is None:
            partitions = topics[place.topic] = {}
        partitions[place.partition] = committed

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self.by_group[group_id]

    def has_any(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an offset is committed there, be it in an open transaction."""
        if self.get(group_id, topic, partition) is not None:
            return True
        return OffsetPlace(group_id, topic, partition) in self.pending

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        return partitions.get(partition) if partitions is not None else None

    def all_of(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.by_group.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def tombstones(self, group_id: str) -> list[OffsetCommit]:
        places = {OffsetPlace(group_id, topic, p): None for topic, p, _ in self.all_of(group_id)}
        places.update(dict.fromkeys(self.pending.of_group(group_id)))
        return [offset_tombstone(*place) for place in places]

    def tombstones_of_topics(self, deleted: Iterable[tuple[str, bytes]]) -> list[OffsetCommit]:
        """The offsets of deleted (name, id) topics, but not those of a successor of that name."""
        places: dict[OffsetPlace, None] = {}
        for name, topic_id in deleted:
            for group_id, topics in self.by_group.items():
                for partition, committed in topics.get(name, {}).items():
                    if committed.topic_id in (ZERO_UUID, topic_id):
                        places[OffsetPlace(group_id, name, partition)] = None
            places.update(dict.fromkeys(self.pending.of_topic(name)))
        return [offset_tombstone(*place) for place in places]

    def expired(
        self, group_id: str, now_ms: int, retention_ms: int, base: Callable[[CommittedOffset], int]
    ) -> list[tuple[str, int]]:
        """(topic, partition) of what is out of time; `base` says when its time began.

        Where a transaction is open nothing expires.
        """
        return [
            (topic, partition)
            for topic, partition, committed in self.all_of(group_id)
            if _is_expired(committed, now_ms, retention_ms, base)
            and OffsetPlace(group_id, topic, partition) not in self.pending
        ]


def _place(record: OffsetCommit) -> OffsetPlace:
    key = record.key
    return OffsetPlace(key.group, key.topic, key.partition)


def _committed(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def _is_expired(
    committed: CommittedOffset,
    now_ms: int,
    retention_ms: int,
    base: Callable[[CommittedOffset], int],
) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - base(committed) >= retention_ms


# -- OffsetCommit


class CommittedPartition(Protocol):
    """What a client says of a partition, in a transaction or not."""

    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def record_of(
    key: OffsetCommitKey,
    partition: CommittedPartition,
    now_ms: int,
    expiry_ms: int = NO_EXPIRY,
    topic_id: bytes = ZERO_UUID,
) -> OffsetCommit:
    return OffsetCommit(
        key,
        OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            expire_timestamp=expiry_ms,
            topic_id=topic_id,
        ),
    )


def commit(
    request: OffsetCommitRequest, metadata_max_bytes: int, now_ms: int
) -> tuple[list[OffsetCommit], OffsetCommitResponse]:
    """The records of a commit that was found valid, and its answer."""
    expiry = NO_EXPIRY
    if request.retention_time_ms != -1:
        expiry = min(now_ms + request.retention_time_ms, EXPIRY_MS_MAX)
    records = []
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            if exceeds(partition.committed_metadata or "", metadata_max_bytes):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                answers.append(OffsetCommitResponsePartition(index, error))
                continue
            answers.append(OffsetCommitResponsePartition(index, 0))
            key = OffsetCommitKey(request.group_id, topic.name, index)
            records.append(record_of(key, partition, now_ms, expiry, topic.topic_id))
        topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return records, OffsetCommitResponse(topics=topics)


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition.partition_index, error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def exceeds(metadata: str, length_max: int) -> bool:
    """`offset.metadata.max.bytes` counts, in spite of its name, UTF-16 units."""
    if len(metadata) > length_max:
        return True
    return 2 * len(metadata) > length_max and len(utf16(metadata)) // 2 > length_max


# -- OffsetFetch


def fetch(
    offsets: Offsets, request: OffsetFetchRequestGroup, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """The offsets asked for, -1 where there is none; all of them where no topics are named.

    `require_stable`: UNSTABLE_OFFSET_COMMIT where an open transaction has committed one (KIP-447).
    """
    group_id = request.group_id

    def told(
        topic: str, index: int, committed: CommittedOffset | None
    ) -> OffsetFetchResponsePartitions:
        if require_stable and OffsetPlace(group_id, topic, index) in offsets.pending:
            return _fetched(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _fetched(index, committed)

    if request.topics is None:
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[told(name, index, found) for index, found in partitions.items()],
            )
            for name, partitions in offsets.by_group.get(group_id, {}).items()
        ]
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)
    topics = []
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            committed = offsets.get(group_id, topic.name, index)
            if committed is not None and _other_topic(committed.topic_id, topic.topic_id):
                committed = None
            answers.append(told(topic.name, index, committed))
        topics.append(
            OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _other_topic(committed: bytes, asked: bytes) -> bool:
    """Whether the offset belongs to an earlier topic of the same name, as far as ids are known."""
    return ZERO_UUID not in (committed, asked) and committed != asked


def _fetched(
    index: int, committed: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            error_code=error,
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
