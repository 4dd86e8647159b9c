"""The records of `__consumer_offsets` that classic groups and committed offsets live in.

Layout (Apache Kafka's; its tools and other brokers read these bytes):

    key    int16 record type, then the key's fields
    value  int16 version, then the value's fields; a null value deletes what the key names

    type  key                             value                    written as version
    ----  ------------------------------  -----------------------  ---------------------------
    0     group, topic, partition         LegacyOffsetCommitValue  never (brokers before 0.9)
    1     group, topic, partition         OffsetCommitValue        4, or 1 with an expiry time
    2     group                           GroupMetadataValue       3, the last inflexible one

Version 4 of OffsetCommitValue carries the topic's id; version 1 is the only one that can say when
an offset expires, which clients of OffsetCommit v2-4 may ask for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kwire.codecs.messages.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.primitives import DecodeError

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VALUE_VERSION = 3

_VERSION = struct.Struct(">h")
_OFFSET_COMMIT_PREFIX = _VERSION.pack(OFFSET_COMMIT)
_GROUP_METADATA_PREFIX = _VERSION.pack(GROUP_METADATA)
_VALUE_PREFIX = [_VERSION.pack(version) for version in range(8)]


class UnreadableRecord(ValueError):
    """A record of a known type in a version that this broker does not know, or torn."""


@dataclass(slots=True)
class OffsetCommit:
    """A committed offset of one partition; no value: the offset is forgotten."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None

    def encode(self) -> tuple[bytes, bytes | None]:
        key = _OFFSET_COMMIT_PREFIX + self.key.encode(0)
        value = self.value
        if value is None:
            return key, None
        version = (
            OFFSET_COMMIT_VALUE_VERSION
            if value.expire_timestamp == -1
            else OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
        )
        return key, _VALUE_PREFIX[version] + value.encode(version)


@dataclass(slots=True)
class GroupMetadata:
    """A classic group as of its last completed rebalance; no value: the group is deleted."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None

    def encode(self) -> tuple[bytes, bytes | None]:
        key = _GROUP_METADATA_PREFIX + self.key.encode(0)
        if self.value is None:
            return key, None
        version = GROUP_METADATA_VALUE_VERSION
        return key, _VALUE_PREFIX[version] + self.value.encode(version)


Record = OffsetCommit | GroupMetadata


def decode(key: bytes | None, value: bytes | None) -> Record | None:
    """The record, or None for a type that this broker does not know (a newer broker wrote it).

    Raises UnreadableRecord.
    """
    if key is None or len(key) < 2:
        raise UnreadableRecord("a record of __consumer_offsets without a key")
    try:
        kind = _VERSION.unpack_from(key)[0]
        if kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
            return OffsetCommit(
                OffsetCommitKey.decode(key, 0, 2),
                None if value is None else _offset_commit_value(value),
            )
        if kind == GROUP_METADATA:
            return GroupMetadata(
                GroupMetadataKey.decode(key, 0, 2),
                None
                if value is None
                else GroupMetadataValue.decode(value, _version_of(value, GroupMetadataValue), 2),
            )
    except DecodeError as error:
        raise UnreadableRecord(f"a record of __consumer_offsets cannot be read: {error}") from error
    return None


def _offset_commit_value(value: bytes) -> OffsetCommitValue:
    """LegacyOffsetCommitValue is laid out as version 0 of OffsetCommitValue."""
    return OffsetCommitValue.decode(value, _version_of(value, OffsetCommitValue), 2)


def _version_of(value: bytes, kind: type[OffsetCommitValue] | type[GroupMetadataValue]) -> int:
    if len(value) < 2:
        raise UnreadableRecord(f"{kind.__name__} of {len(value)} bytes")
    version: int = _VERSION.unpack_from(value)[0]
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise UnreadableRecord(f"{kind.__name__} of unknown version {version}")
    return version


def offset_tombstone(group_id: str, topic: str, partition: int) -> OffsetCommit:
    return OffsetCommit(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_tombstone(group_id: str) -> GroupMetadata:
    return GroupMetadata(GroupMetadataKey(group=group_id), None)
