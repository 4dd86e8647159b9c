"""The record of a committed offset: the most frequent one of `__consumer_offsets`.

Layout (Apache Kafka's; kwire.groups.record_format has the common format):

    key    int16 type 1, string group, string topic, int32 partition
    value  int16 version 4, OffsetCommitValue; version 1 if the client set an expiry time

Each commit writes one record for each partition, so nearly all of them are encoded by a fast path.
The generated messages encode the others and decode all; a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.primitives import ZERO_UUID
from kwire.groups.record_format import VALUE_PREFIX, VERSION, version_of

OFFSET_COMMIT = 1

OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1

NO_EXPIRY = -1

_TYPE = VERSION.pack(OFFSET_COMMIT)
_PARTITION = Struct(">i")
_PLAIN_VALUE = Struct(">hqiBqBBB16s")
"""Version, offset, leader epoch, length + 1 of empty metadata, commit time; one tagged field, whose
tag 0 of 16 bytes is the topic id."""

_PREFIXES_KEPT = 4096
"""Groups commit the same topics again and again; a kept prefix has some 200 bytes."""


class OffsetKey(NamedTuple):
    """Identifies a committed offset."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """An offset with its metadata.

    Times are in ms since the epoch; `expire_timestamp_ms` -1 means the broker's retention.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = 0
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID
    """Id of the topic when the offset was committed; zero if the request had no topic ids."""


@dataclass(slots=True)
class OffsetCommit:
    """A committed offset of one partition; value None deletes it."""

    key: OffsetKey
    value: CommittedOffset | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return the key and the value as bytes; the value is None for a tombstone."""
        group_id, topic, partition = self.key
        key = _key_prefix(group_id, topic) + _PARTITION.pack(partition)
        return key, None if self.value is None else _encode_value(self.value)

    def as_messages(self) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
        """The key and the value with the fields of Kafka's schemas."""
        value = None if self.value is None else OffsetCommitValue(*self.value)
        return OffsetCommitKey(*self.key), value

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> OffsetCommit:
        """Decode either type: LegacyOffsetCommitValue has the layout of OffsetCommitValue 0.

        Raises DecodeError, UnreadableRecord.
        """
        decoded = OffsetCommitKey.decode(key, 0, 2)
        return cls(
            OffsetKey(decoded.group, decoded.topic, decoded.partition),
            None if value is None else _decode_value(value),
        )


def offset_tombstone(group_id: str, topic: str, partition: int) -> OffsetCommit:
    return OffsetCommit(OffsetKey(group_id, topic, partition), None)


@lru_cache(maxsize=_PREFIXES_KEPT)
def _key_prefix(group_id: str, topic: str) -> bytes:
    """Return the key of a group and topic without its partition.  Raises EncodeError."""
    return _TYPE + OffsetCommitKey(group_id, topic).encode(0)[: -_PARTITION.size]


def _encode_value(committed: CommittedOffset) -> bytes:
    """Return the value; only an older version of it has an expiry time."""
    offset, leader_epoch, metadata, committed_ms, expire_ms, topic_id = committed
    if not metadata and expire_ms == NO_EXPIRY and topic_id != ZERO_UUID:
        version = OFFSET_COMMIT_VALUE_VERSION
        return _PLAIN_VALUE.pack(
            version, offset, leader_epoch, 1, committed_ms, 1, 0, len(topic_id), topic_id
        )
    version = (
        OFFSET_COMMIT_VALUE_VERSION
        if expire_ms == NO_EXPIRY
        else OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
    )
    return VALUE_PREFIX[version] + OffsetCommitValue(*committed).encode(version)


def _decode_value(value: bytes) -> CommittedOffset:
    """Raises DecodeError, UnreadableRecord."""
    decoded = OffsetCommitValue.decode(value, version_of(value, OffsetCommitValue), 2)
    return CommittedOffset(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        decoded.expire_timestamp,
        decoded.topic_id,
    )
