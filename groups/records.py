"""The records of `__consumer_offsets`: committed offsets, and the records of each kind of groups.

    type       key                      value
    ---------  -----------------------  --------------------------------------------------
    0          group, topic, partition  LegacyOffsetCommitValue (brokers before 0.9 wrote it)
    1          kwire.groups.offset_record
    2          kwire.groups.classic.records
    3-8, 16    kwire.groups.consumer.records
    10-15      kwire.groups.share.records
    17, 19-23  kwire.groups.streams.records

Version 4 of OffsetCommitValue has the topic id.  Version 1 is the only one with an expiry time,
which clients may set in OffsetCommit v2-4.  kwire.groups.record_format has the common format.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.codecs.primitives import DecodeError
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.classic.records import GROUP_METADATA, GroupMetadata
from kwire.groups.offset_record import OFFSET_COMMIT, OffsetCommit
from kwire.groups.record_format import VERSION, UnreadableRecord

LEGACY_OFFSET_COMMIT = 0
CONSUMER_GROUP = frozenset({3, 4, 5, 6, 7, 8, 16})
SHARE_GROUP = frozenset({10, 11, 12, 13, 14, 15})
STREAMS_GROUP = frozenset({17, 19, 20, 21, 22, 23})

Decoder = Callable[[bytes, bytes | None], MachineRecord]

_DECODERS: dict[int, Decoder] = {
    LEGACY_OFFSET_COMMIT: OffsetCommit.decode,
    OFFSET_COMMIT: OffsetCommit.decode,
    GROUP_METADATA: GroupMetadata.decode,
}
"""By record type."""


def decode(key: bytes | None, value: bytes | None) -> MachineRecord | None:
    """The record, or None for a type that this broker does not know (a newer broker wrote it).

    Raises UnreadableRecord.
    """
    # A key begins with the type of the record, an int16.
    if key is None or len(key) < 2:
        raise UnreadableRecord("a record of __consumer_offsets without a key")
    record_type = VERSION.unpack_from(key)[0]
    decoder = _DECODERS.get(record_type)
    if decoder is None:
        decoder = _imported_decoder(record_type)
    if decoder is None:
        return None
    try:
        return decoder(key, value)
    except DecodeError as error:
        raise UnreadableRecord(f"a record of __consumer_offsets cannot be read: {error}") from error


def _imported_decoder(record_type: int) -> Decoder | None:
    """Import the decoders of a record's kind with its first record: many brokers have none."""
    if record_type in CONSUMER_GROUP:
        from kwire.groups.consumer.records import RECORDS as CONSUMER_RECORDS

        _DECODERS.update({record.TYPE: record.decode for record in CONSUMER_RECORDS})
    elif record_type in SHARE_GROUP:
        from kwire.groups.share.records import RECORDS as SHARE_RECORDS

        _DECODERS.update({record.TYPE: record.decode for record in SHARE_RECORDS})
    elif record_type in STREAMS_GROUP:
        from kwire.groups.streams.records import RECORDS as STREAMS_RECORDS

        _DECODERS.update({record.TYPE: record.decode for record in STREAMS_RECORDS})
    return _DECODERS.get(record_type)
