"""The records of `__share_group_state`.  Each value is written as version 0.

type  key                      value
----  -----------------------  ---------------------------------------------------------------
0     group, topic, partition  a snapshot: all that is known; no value: the partition is forgotten
1     group, topic, partition  an update: what has changed since
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.codecs.messages.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.codecs.messages.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.codecs.primitives import DecodeError
from kwire.groups.record_format import VERSION, KeyedRecord, UnreadableRecord


class ShareKey(NamedTuple):
    """A partition as a group reads it."""

    group_id: str
    topic_id: bytes
    partition: int


class Snapshot(KeyedRecord[ShareSnapshotKey, ShareSnapshotValue]):
    TYPE = 0
    KEY = ShareSnapshotKey
    VALUE = ShareSnapshotValue


class Update(KeyedRecord[ShareUpdateKey, ShareUpdateValue]):
    TYPE = 1
    KEY = ShareUpdateKey
    VALUE = ShareUpdateValue


RECORDS: dict[int, type[Snapshot | Update]] = {kind.TYPE: kind for kind in (Snapshot, Update)}


def key_of(record: Snapshot | Update) -> ShareKey:
    return ShareKey(record.key.group_id, record.key.topic_id, record.key.partition)


def decode(key: bytes | None, value: bytes | None) -> Snapshot | Update | None:
    """The record, or None for a type that is not known (a newer broker wrote it).

    Raises UnreadableRecord.
    """
    if key is None or len(key) < VERSION.size:
        raise UnreadableRecord("a record of __share_group_state without a key")
    kind = RECORDS.get(VERSION.unpack_from(key)[0])
    try:
        return None if kind is None else kind.decode(key, value)
    except DecodeError as error:
        raise UnreadableRecord(
            f"a record of __share_group_state cannot be read: {error}"
        ) from error


def forgotten(key: ShareKey) -> Snapshot:
    return Snapshot(ShareSnapshotKey(*key), None)
