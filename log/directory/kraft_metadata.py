"""What a KRaft node's own metadata log, `__cluster_metadata-0`, says of topics and producer ids.

Apache Kafka keeps it beside the partitions unless `metadata.log.dir` names another place.  A newer
`<end offset>-<epoch>.checkpoint` holds everything before its end offset; the segments go on from
there.  The value of a record:

    unsigned varint     frame version, 1
    unsigned varint     record type
    unsigned varint     version of the record, and the record in that version

Records between BeginTransactionRecord and AbortTransactionRecord count for nothing (KIP-866).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kwire.codecs.batches import CorruptBatch, records
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.primitives import DecodeError, Message, varint_tail
from kwire.log.directory import files as names
from kwire.log.directory.files import Files, OpenFile
from kwire.log.recovery import scan

_logger = logging.getLogger(__name__)

FOLDER = "__cluster_metadata-0"
TOPIC = 2
"""The resource type of a topic's configs."""

_FRAME_VERSION = 1
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_KINDS: dict[int, type[Message]] = {
    kind.API_KEY: kind
    for kind in (
        ConfigRecord,
        PartitionChangeRecord,
        PartitionRecord,
        ProducerIdsRecord,
        RemoveTopicRecord,
        TopicRecord,
    )
    if kind.API_KEY is not None
}
_BEGIN, _END, _ABORT = 23, 24, 25
_NO_LEADER_CHANGE = -2


@dataclass(slots=True)
class KraftMetadata:
    """What was set and given out in the cluster, as far as it outlives its nodes."""

    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """(resource type, resource name) to what is set on it."""
    leader_epochs: dict[bytes, dict[int, int]] = field(default_factory=dict)
    """Topic id to partition to the epoch of its leader."""
    next_producer_id: int = 0
    _topics: dict[bytes, str] = field(default_factory=dict)
    _pending: list[Message] | None = None  # of a transaction that has not ended

    def note(self, kind: int, record: Message | None) -> None:
        """An entry of the log; `record` is None for a type that says nothing here."""
        if kind == _BEGIN:
            self._pending = []
        elif kind in (_END, _ABORT):
            pending, self._pending = self._pending or [], None
            for each in pending if kind == _END else ():
                self.apply(each)
        elif record is not None and self._pending is not None:
            self._pending.append(record)
        elif record is not None:
            self.apply(record)

    def apply(self, record: Message) -> None:
        """A record of the log, in its order."""
        if isinstance(record, ConfigRecord):
            key = record.resource_type, record.resource_name
            if record.value is None:
                self.configs.get(key, {}).pop(record.name, None)
            else:
                self.configs.setdefault(key, {})[record.name] = record.value
        elif isinstance(record, TopicRecord):
            self._topics[record.topic_id] = record.name
        elif isinstance(record, PartitionRecord):
            epochs = self.leader_epochs.setdefault(record.topic_id, {})
            epochs[record.partition_id] = record.leader_epoch
        elif isinstance(record, PartitionChangeRecord) and record.leader != _NO_LEADER_CHANGE:
            self.leader_epochs[record.topic_id][record.partition_id] += 1
        elif isinstance(record, RemoveTopicRecord):
            self.leader_epochs.pop(record.topic_id, None)
            self.configs.pop((TOPIC, self._topics.pop(record.topic_id, "")), None)
        elif isinstance(record, ProducerIdsRecord):
            self.next_producer_id = max(self.next_producer_id, record.next_producer_id)


def read(log_dir: Path, files: Files) -> KraftMetadata | None:
    """What the metadata log in `log_dir` says; None if there is none.

    OSError if it cannot be read.  Where it is damaged, what comes before that counts: a warning
    tells.
    """
    folder = log_dir / FOLDER
    if not folder.is_dir():
        return None
    found = KraftMetadata()
    for path, start in _parts(folder):
        try:
            for kind, record in _records(path, start, files):
                found.note(kind, record)
        except (CorruptBatch, DecodeError, LookupError) as error:
            _logger.warning("%s is read up to what cannot be understood: %s", path, error)
            break
    return found


def _parts(folder: Path) -> Iterator[tuple[Path, int]]:
    """The newest checkpoint and the segments that go on behind it, each with where it is read
    from."""
    listed = sorted(os.listdir(folder))
    snapshots = [name for name in listed if _CHECKPOINT.fullmatch(name)]
    bases = [name for name in listed if name.endswith(names.LOG)]
    start = int(snapshots[-1][:20]) if snapshots else 0
    earlier = [name for name in bases if (names.offset_of_file_name(name) or 0) <= start]
    yield from ((folder / name, 0) for name in snapshots[-1:])
    yield from ((folder / name, start) for name in earlier[-1:] + bases[len(earlier) :])


def _records(path: Path, start: int, files: Files) -> Iterator[tuple[int, Message | None]]:
    """Type and record of each entry; no record for a type that is not asked for here."""
    file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    for _, header, batch in scan.batches(files, file, 0, files.size(file)):
        if header.is_control:
            continue
        for record in records(batch):
            if record.offset >= start and record.value is not None:
                yield _decode(record.value)


def _decode(value: bytes) -> tuple[int, Message | None]:
    frame_version, pos = _unsigned(value, 0)
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version}")
    kind, pos = _unsigned(value, pos)
    version, pos = _unsigned(value, pos)
    reader = _KINDS.get(kind)
    return kind, None if reader is None else reader.decode(value, version, pos)


def _unsigned(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos]
    return (first, pos + 1) if first < 0x80 else varint_tail(data, pos + 1, first)
