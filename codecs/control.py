"""Control batches: the markers that end a transaction in each partition it wrote to.

key    int16 version | int16 type (0 abort, 1 commit)
value  int16 version | int32 coordinator epoch          (EndTxnMarker)
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kwire.codecs.batch_builder import build
from kwire.codecs.batch_layout import (
    BASE_OFFSET,
    BASE_TIMESTAMP_POS,
    CRC,
    CRC_END,
    CRC_POS,
    LEADER_EPOCH,
    LEADER_EPOCH_POS,
)
from kwire.codecs.crc32c import crc32c
from kwire.codecs.record import CorruptBatch, Record

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0

_NUMBERS = Struct(">qqqh")  # first and largest timestamp, producer id, epoch

_TEMPLATES_KEPT = 64
_templates: dict[tuple[ControlType, int], bytes] = {}
"""The built markers by type and coordinator epoch.  A broker sees few different ones."""


class ControlType(IntEnum):
    """The control records that end a transaction (part of Kafka's ControlRecordType)."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(NamedTuple):
    """The end of a transaction (commit or abort), and the epoch of its coordinator."""

    kind: ControlType
    coordinator_epoch: int


def control_batch(
    kind: ControlType,
    coordinator_epoch: int,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """Return the batch of one marker, as MemoryRecords.withEndTransactionMarker writes it.

    Markers differ in a few numbers only.  So the first one of each type is built, and the others
    are copies with other numbers: a transaction with 64 partitions needs 64 markers.
    """
    template = _templates.get((kind, coordinator_epoch))
    if template is None:
        if len(_templates) >= _TEMPLATES_KEPT:
            _templates.clear()
        template = _templates[kind, coordinator_epoch] = _template(kind, coordinator_epoch)
    batch = bytearray(template)
    BASE_OFFSET.pack_into(batch, 0, base_offset)
    LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_POS, partition_leader_epoch)
    _NUMBERS.pack_into(batch, BASE_TIMESTAMP_POS, timestamp, timestamp, producer_id, producer_epoch)
    with memoryview(batch) as view:
        CRC.pack_into(batch, CRC_POS, crc32c(view[CRC_END:]))
    return batch


def _template(kind: ControlType, coordinator_epoch: int) -> bytes:
    marker = Record(0, 0, _KEY.pack(_VERSION, kind), _VALUE.pack(_VERSION, coordinator_epoch))
    return bytes(build([marker], producer_id=0, producer_epoch=0, transactional=True, control=True))


def read_marker(record: Record) -> EndTxnMarker | None:
    """Return the marker in the record of a control batch; None for a control record of another
    type.

    Later versions may append fields, so only the fields of version 0 are read.
    """
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("the key of a control record is cut short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"a control record's key has version {version}")
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch("the value of a transaction marker is cut short")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"a transaction marker has version {version}")
    return EndTxnMarker(ControlType(kind), coordinator_epoch)
