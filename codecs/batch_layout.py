"""The layout of a record batch's header.  It is stated only here.

Magic 2, big-endian, 61 bytes, then the records (compressed as a whole, or not):

    q base_offset            of the first record
    i length                 of all that follows this field
    i partition_leader_epoch set by the broker
    b magic                  2
    I crc                    CRC-32C of all that follows this field
    h attributes             0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                             6 base_timestamp is the delete horizon (KIP-534)
    i last_offset_delta      last offset - base_offset; compaction does not lower it
    q base_timestamp         of the first record, ms (or the delete horizon)
    q max_timestamp          ms
    q producer_id            -1 if not idempotent, so the next two
    h producer_epoch
    i base_sequence
    i records_count

Messages of magic 0 and 1 have length and magic at the same positions; each is a batch by itself.
"""

from __future__ import annotations

from struct import Struct

from kwire.codecs.compression import Compression

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12
"""Size of base_offset and length, which `length` does not count."""
MAGIC = 2
LEGACY_LENGTHS_MIN = (14, 22)
"""The least lengths of messages of magic 0 and 1: LegacyRecord.RECORD_OVERHEAD_V0 and _V1."""

BASE_OFFSET = Struct(">q")
START = Struct(">qii")
"""base_offset, length and partition_leader_epoch."""
LENGTH, LENGTH_POS = Struct(">i"), 8
LEADER_EPOCH, LEADER_EPOCH_POS = Struct(">i"), 12
MAGIC_POS = 16
CRC, CRC_POS = Struct(">I"), 17
CRC_END = 21
"""The CRC covers the bytes from here on."""
ATTRIBUTES, ATTRIBUTES_POS = Struct(">h"), 21
FLAGS_POS = 22
"""The low byte of the attributes, which has all defined flags."""
BASE_TIMESTAMP_POS = 27
MAX_TIMESTAMP, MAX_TIMESTAMP_POS = Struct(">q"), 35
PRODUCER, PRODUCER_POS = Struct(">qhi"), 43
"""producer_id, producer_epoch and base_sequence."""

CODEC_MASK = 0x07
CODEC_MAX = int(max(Compression))
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

SEQUENCE_RANGE = 1 << 31
"""Sequence numbers are int32 from 0 on, and wrap to 0."""
