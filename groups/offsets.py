"""Committed offsets of the groups of one partition of `__consumer_offsets`.

All of it is durable: an entry is the last OffsetCommit record of its key.  Offsets of open
transactions are kept apart (kwire.groups.pending_offsets).  An offset is deleted by OffsetDelete,
with its group, with its topic, or by time: `offsets.retention.minutes` after the commit or after
the group lost its last member, or at the time that the client asked for (v2-4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from kwire.codecs.errors import ErrorCode
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
from kwire.groups.offset_record import (
    NO_EXPIRY,
    CommittedOffset,
    OffsetCommit,
    OffsetKey,
    offset_tombstone,
)
from kwire.groups.pending_offsets import PendingOffsets

NO_OFFSET = -1
EXPIRY_MS_MAX = (1 << 63) - 1
"""The highest time that the record can hold; a client may ask for any retention."""


Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


class Offsets:
    """The committed offsets of the groups of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self.by_group: dict[str, Topics] = {}
        self.pending = PendingOffsets()

    def apply(self, record: OffsetCommit) -> None:
        """Apply a record that is not part of an open transaction."""
        key, committed = record.key, record.value
        if committed is None:
            self._remove(*key)
            self.pending.remove(key)
        else:
            self._put(key, committed)
            self.pending.overtake(key)

    def apply_pending(self, record: OffsetCommit, producer_id: int) -> None:
        """Apply a record of the producer's open transaction."""
        if record.value is None:
            self.apply(record)
        else:
            self.pending.add(producer_id, record.key, record.value)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """Apply the pending offsets of the producer, or drop them."""
        for key, committed in self.pending.end(producer_id, commit):
            self._put(key, committed)

    def _put(self, key: OffsetKey, committed: CommittedOffset) -> None:
        """Set the committed offset of a partition, and replace the one before."""
        topics = self.by_group.get(key.group_id)
        if topics is None:
            topics = self.by_group[key.group_id] = {}
        partitions = topics.get(key.topic)
        if partitions is None:
            partitions = topics[key.topic] = {}
        partitions[key.partition] = committed

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the committed offset of a partition, if there is one.

        Empty entries of topics and groups are removed too.
        """
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
        """Whether an offset is committed for the partition, also in an open transaction."""
        if self.get(group_id, topic, partition) is not None:
            return True
        return OffsetKey(group_id, topic, partition) in self.pending

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition, or None."""
        topics = self.by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        return partitions.get(partition) if partitions is not None else None

    def all_of(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yield topic, partition and committed offset of each partition of a group."""
        for topic, partitions in self.by_group.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def tombstones(self, group_id: str) -> list[OffsetCommit]:
        """The records that delete all offsets of a group, pending ones too."""
        keys = {OffsetKey(group_id, topic, p): None for topic, p, _ in self.all_of(group_id)}
        keys.update(dict.fromkeys(self.pending.of_group(group_id)))
        return [offset_tombstone(*key) for key in keys]

    def tombstones_of_topics(self, deleted: Iterable[tuple[str, bytes]]) -> list[OffsetCommit]:
        """The records that delete the offsets of deleted topics (name, id).

        Offsets of a newer topic with the same name stay.
        """
        keys: dict[OffsetKey, None] = {}
        for name, topic_id in deleted:
            for group_id, topics in self.by_group.items():
                for partition, committed in topics.get(name, {}).items():
                    if committed.topic_id in (ZERO_UUID, topic_id):
                        keys[OffsetKey(group_id, name, partition)] = None
            keys.update(dict.fromkeys(self.pending.of_topic(name)))
        return [offset_tombstone(*key) for key in keys]

    def expired(
        self, group_id: str, now_ms: int, retention_ms: int, base: Callable[[CommittedOffset], int]
    ) -> list[tuple[str, int]]:
        """(topic, partition) of each expired offset; `base` returns when its retention started.

        Partitions with a pending offset do not expire.
        """
        return [
            (topic, partition)
            for topic, partition, committed in self.all_of(group_id)
            if _is_expired(committed, now_ms, retention_ms, base)
            and OffsetKey(group_id, topic, partition) not in self.pending
        ]


def _is_expired(
    committed: CommittedOffset,
    now_ms: int,
    retention_ms: int,
    base: Callable[[CommittedOffset], int],
) -> bool:
    """Return whether the offset has expired at `now_ms`.

    Only clients of old versions give a commit an expiry time of its own.  Otherwise the offset
    expires `retention_ms` after the time that `base` returns.
    """
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - base(committed) >= retention_ms


# -- OffsetCommit


class CommittedPartition(Protocol):
    """A partition in OffsetCommit or TxnOffsetCommit."""

    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def committed_of(
    partition: CommittedPartition,
    now_ms: int,
    expiry_ms: int = NO_EXPIRY,
    topic_id: bytes = ZERO_UUID,
) -> CommittedOffset:
    """Return the offset that a request commits; null metadata becomes empty."""
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms,
        expiry_ms,
        topic_id,
    )


def commit(
    request: OffsetCommitRequest, metadata_max_bytes: int, now_ms: int
) -> tuple[list[OffsetCommit], OffsetCommitResponse]:
    """The records of a validated commit, and its response."""
    expiry = NO_EXPIRY
    if request.retention_time_ms != -1:
        expiry = min(now_ms + request.retention_time_ms, EXPIRY_MS_MAX)
    records = []
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            if exceeds(partition.committed_metadata, metadata_max_bytes):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                answers.append(OffsetCommitResponsePartition(index, error))
                continue
            answers.append(OffsetCommitResponsePartition(index, 0))
            key = OffsetKey(request.group_id, topic.name, index)
            committed = committed_of(partition, now_ms, expiry, topic.topic_id)
            records.append(OffsetCommit(key, committed))
        topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return records, OffsetCommitResponse(topics=topics)


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return the response in which each partition of the request has `error`."""
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


def exceeds(metadata: str | None, length_max: int) -> bool:
    """Whether metadata is longer than `offset.metadata.max.bytes`, counted in UTF-16 units."""
    if not metadata:
        return False
    if len(metadata) > length_max:
        return True
    # A character has at most two UTF-16 units, so short metadata need not be encoded.
    return 2 * len(metadata) > length_max and len(utf16(metadata)) // 2 > length_max


# -- OffsetFetch


def fetch(
    offsets: Offsets, request: OffsetFetchRequestGroup, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """The requested offsets, or all of the group if the request has no topics.

    A partition without a committed offset has offset -1.  With `require_stable`, a partition with a
    pending offset has the error UNSTABLE_OFFSET_COMMIT (KIP-447).
    """
    group_id = request.group_id

    def fetched(
        topic: str, index: int, committed: CommittedOffset | None
    ) -> OffsetFetchResponsePartitions:
        """Return the answer of a partition; an error if an open transaction may change it."""
        if require_stable and OffsetKey(group_id, topic, index) in offsets.pending:
            return _fetched(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _fetched(index, committed)

    if request.topics is None:
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    fetched(name, index, committed) for index, committed in partitions.items()
                ],
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
            answers.append(fetched(topic.name, index, committed))
        topics.append(
            OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _other_topic(committed_id: bytes, requested_id: bytes) -> bool:
    """Whether the offset belongs to another topic of the same name; False if an id is unknown."""
    return ZERO_UUID not in (committed_id, requested_id) and committed_id != requested_id


def _fetched(
    index: int, committed: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    """Return the answer of one partition: its committed offset, or -1 and `error`."""
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
