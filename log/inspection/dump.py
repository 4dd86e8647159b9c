"""Reads a file of a log directory entry by entry, as plain values.

.log                        batches, and their records if wanted
.index .timeindex .txnindex their entries
.snapshot                   producers
*-checkpoint                offsets or epochs
partition.metadata, meta.properties
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kwire.codecs.batches import BatchHeader, Record, check_crc, records
from kwire.codecs.record import CorruptBatch
from kwire.codecs.uuids import uuid_text
from kwire.log.directory import checkpoints, meta_properties, partition_metadata
from kwire.log.directory import files as names
from kwire.log.directory.files import Files, OpenFile
from kwire.log.error import CorruptFile
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from kwire.log.index.txn_index import TxnIndex
from kwire.log.producers import snapshot as producer_snapshot
from kwire.log.reading.region import read_exactly
from kwire.log.recovery import scan

Entry = dict[str, Any]
OfRecord = Callable[[Record], Entry]
"""Makes the entry of a record from its key and value."""

_FILES = Files()


def entries(path: Path, of_record: OfRecord | None = None) -> Iterator[Entry]:
    """Return the entries of a file in order; with `of_record`, also each batch's records after the
    batch.

    Raises CorruptFile if the file is of an unknown kind or damaged.
    """
    if path.suffix == names.LOG:
        return _batches(path, of_record)
    if path.name.endswith("-checkpoint"):
        return _checkpoint(path)
    if path.name == partition_metadata.FILE_NAME:
        return _topic_id(path)
    if path.name == meta_properties.FILE_NAME:
        return _identity(path)
    reader = _BY_SUFFIX.get(path.suffix)
    if reader is None:
        raise CorruptFile(f"{path} is not a file of a log directory that this command reads")
    return reader(path)


def is_readable(path: Path) -> bool:
    """Return whether `entries` can read a file of this name."""
    return path.is_file() and (
        (path.suffix == names.LOG and names.offset_of_file_name(path.name) is not None)
        or path.suffix in _BY_SUFFIX
        or path.name.endswith("-checkpoint")
        or path.name in (partition_metadata.FILE_NAME, meta_properties.FILE_NAME)
    )


def _batches(path: Path, of_record: OfRecord | None) -> Iterator[Entry]:
    """Yield each batch of a segment file, and its records if `of_record` describes them.

    Raises CorruptFile at bytes that are no batch. A wrong CRC is an entry's value, no error.
    """
    file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    size_bytes = _FILES.size(file)
    end = 0
    try:
        for position, header in scan.headers(_FILES, file, 0, size_bytes, scan.WINDOW_BYTES_MAX):
            batch = read_exactly(_FILES, file, position, header.size_bytes)
            yield _of_batch(position, header, batch)
            end = position + header.size_bytes
            if of_record is not None:
                for record in records(batch):
                    yield {
                        "record": record.offset,
                        "timestamp": record.timestamp,
                        **of_record(record),
                    }
    except CorruptBatch as error:
        raise CorruptFile(f"{path}: position {end}: {error}") from error
    if end < size_bytes:
        raise CorruptFile(f"{path}: position {end}: {size_bytes - end} bytes are no whole batch")


def _of_batch(position: int, header: BatchHeader, batch: bytes) -> Entry:
    """Return the header of a batch as plain values; those of a producer only if it has one."""
    try:
        check_crc(batch, 0, header)
        crc_holds = True
    except CorruptBatch:
        crc_holds = False
    entry: Entry = {
        "batch": f"{header.base_offset}-{header.last_offset}",
        "records": header.records_count,
        "position": position,
        "size_bytes": header.size_bytes,
        "magic": header.magic,
        "epoch": header.partition_leader_epoch,
        "codec": header.compression.name.lower(),
        "max_timestamp": header.max_timestamp,
        "timestamp_type": header.timestamp_type.name,
        "crc": "holds" if crc_holds else "DOES NOT HOLD",
    }
    if header.producer_id >= 0:
        entry |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
            "control": header.is_control,
        }
    return entry


def _offset_index(path: Path) -> Iterator[Entry]:
    index = OffsetIndex(path, _base_offset(path), _FILES)
    for number in range(index.count):
        offset, position = index.at(number)
        yield {"offset": offset, "position": position}


def _time_index(path: Path) -> Iterator[Entry]:
    index = TimeIndex(path, _base_offset(path), _FILES)
    for number in range(index.count):
        timestamp, offset = index.at(number)
        yield {"timestamp": timestamp, "offset": offset}


def _txn_index(path: Path) -> Iterator[Entry]:
    for entry in TxnIndex(path, _base_offset(path), _FILES, exists=True).entries:
        yield entry._asdict()


def _snapshot(path: Path) -> Iterator[Entry]:
    """Yield each producer of a producer snapshot file; raises CorruptFile."""
    for entry in producer_snapshot.decode(path.read_bytes()):
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.txn_first_offset,
        }


def _base_offset(path: Path) -> int:
    offset = names.offset_of_file_name(path.name)
    if offset is None:
        raise CorruptFile(f"{path}: its name must begin with the base offset of its segment")
    return offset


def _checkpoint(path: Path) -> Iterator[Entry]:
    """Yield each line of a checkpoint file; raises CorruptFile.

    `leader-epoch-checkpoint` has epochs, all other checkpoints have partitions with offsets.
    """
    if path.name == checkpoints.LEADER_EPOCHS:
        for epoch, offset in checkpoints.decode_epochs(path.read_bytes()):
            yield {"epoch": epoch, "start_offset": offset}
        return
    for (topic, partition), offset in checkpoints.read_offsets(_FILES, path).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _topic_id(path: Path) -> Iterator[Entry]:
    topic_id = partition_metadata.read(_FILES, path.parent)
    yield {"topic_id": None if topic_id is None else uuid_text(topic_id)}


def _identity(path: Path) -> Iterator[Entry]:
    """Yield the one entry of `meta.properties`; raises LogDirError if it cannot be understood."""
    properties = meta_properties.read(_FILES, path.parent)
    assert properties is not None, path
    yield {
        "version": properties.version,
        "node_id": properties.node_id,
        "cluster_id": properties.cluster_id,
        "directory_id": properties.directory_id,
    }


_BY_SUFFIX = {
    names.OFFSET_INDEX: _offset_index,
    names.TIME_INDEX: _time_index,
    names.TXN_INDEX: _txn_index,
    names.PRODUCER_SNAPSHOT: _snapshot,
}
