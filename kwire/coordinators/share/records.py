"""The records of `__share_group_state`.  Each value is written as version 0.

type  key                      value
----  -----------------------  ----------------------------------------------------------------
0     group, topic, partition  a snapshot: the whole state; null: the state is deleted
1     group, topic, partition  an update: what has changed since the previous record
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.codecs.messages.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.codecs.messages.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.codecs.primitives import DecodeError
from kwire.groups.record_format import VERSION, KeyedRecord, UnreadableRecord


class ShareKey(NamedTuple):
    """Identifies a share partition: a group and a partition that it reads."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareStateSnapshot(KeyedRecord[ShareSnapshotKey, ShareSnapshotValue]):
    TYPE = 0


class ShareStateUpdate(KeyedRecord[ShareUpdateKey, ShareUpdateValue]):
    TYPE = 1


RECORDS: dict[int, type[ShareStateSnapshot | ShareStateUpdate]] = {
    kind.TYPE: kind for kind in (ShareStateSnapshot, ShareStateUpdate)
}


def key_of(record: ShareStateSnapshot | ShareStateUpdate) -> ShareKey:
    return ShareKey(record.key.group_id, record.key.topic_id, record.key.partition)


def decode(key: bytes | None, value: bytes | None) -> ShareStateSnapshot | ShareStateUpdate | None:
    """Return the record, or None if its type is unknown (a newer broker wrote it).

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


def state_tombstone(key: ShareKey) -> ShareStateSnapshot:
    return ShareStateSnapshot(ShareSnapshotKey(*key), None)
