"""What the logs of a directory say of topics and producers, where no metadata does."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.cluster.metadata.topic_names import TRANSACTION_STATE_TOPIC
from kwire.codecs.batches import Record, iter_batches, records
from kwire.codecs.uuids import random_uuid
from kwire.log import Log, LogManager
from kwire.log.directory import log_dir, partition_metadata
from kwire.log.error import CorruptFile
from kwire.txn.records import UnreadableRecord, decode

if TYPE_CHECKING:
    from kwire.log.directory.log_dir import LogDir
    from kwire.storage.takeover.reconciling import OnDisk

log = logging.getLogger("kwire.takeover")

ZERO_UUID = bytes(16)
_READ_BYTES = 1 << 20


def folders(directories: list[LogDir]) -> OnDisk:
    """The partitions' folders, those included that Apache Kafka has set aside as strays."""
    found: dict[str, dict[int, bytes | None]] = {}
    for directory in directories:
        for name in directory.folders():
            key = log_dir.parse_partition_folder(name) or _stray(name)
            if key is not None:
                of_topic = found.setdefault(key[0], {})
                of_topic[key[1]] = topic_id(directory, directory.path / name)
    return found


def _stray(name: str) -> tuple[str, int] | None:
    """(topic, partition) of `topic-partition.<32 hex digits>-stray`."""
    folder, dot, _ = name.rpartition(".")
    if not dot or not name.endswith(log_dir.STRAY_SUFFIX):
        return None
    return log_dir.parse_partition_folder(folder)


def strays(directories: list[LogDir]) -> Iterator[tuple[LogDir, Path, str, int]]:
    """Folders that Apache Kafka has set aside: directory, path, topic, partition."""
    for directory in directories:
        for name in directory.folders():
            key = _stray(name)
            if key is not None:
                yield directory, directory.path / name, *key


def topic_id(directory: LogDir, path: Path) -> bytes | None:
    try:
        return partition_metadata.read(directory.files, path)
    except CorruptFile as error:
        log.warning("%s", error)
        return None


def by_topic(logs: LogManager) -> Mapping[str, Mapping[int, Log]]:
    found: dict[str, dict[int, Log]] = {}
    for (topic, index), each in logs.logs.items():
        found.setdefault(topic, {})[index] = each
    return found


def topic_of(name: str, partitions: Mapping[int, Log], node_id: int) -> TopicImage | None:
    """The topic of these logs, None if they are not all of its partitions."""
    if sorted(partitions) != list(range(len(partitions))):
        return None
    known = {each.topic_id for each in partitions.values()} - {ZERO_UUID}
    if len(known) > 1:
        return None
    made = known.pop() if known else random_uuid(os.urandom)
    states = (
        PartitionImage(node_id, max(newest_epoch(partitions[index]), 0), 0, (node_id,), (node_id,))
        for index in sorted(partitions)
    )
    return TopicImage(name, made, tuple(states))


def newest_epoch(log: Log) -> int:
    """The last epoch that clients may have heard of: with batches, or of a leader without any."""
    return max(log.epochs.latest_epoch, log.epochs.latest_loaded)


def producer_ids(logs: LogManager) -> Iterator[int]:
    """All that logs and transactional ids mention."""
    for (topic, _), log in logs.logs.items():
        yield from log.producers.entries
        if topic == TRANSACTION_STATE_TOPIC:
            yield from _producers_of(log)


def _producers_of(transactions: Log) -> Iterator[int]:
    """The producer ids of transactional ids, which outlive what logs remember of producers."""
    for record in _records(transactions):
        try:
            said = decode(record.key, record.value)
        except UnreadableRecord as error:
            log.warning("%r, offset %d: %s", transactions, record.offset, error)
            continue
        if said is not None and said.transaction is not None:
            yield max(said.transaction.producer_id, said.transaction.next_producer_id)


def _records(log: Log) -> Iterator[Record]:
    at, end = log.log_start_offset, log.log_end_offset
    while region := log.read(at, _READ_BYTES, max_offset=end, min_one_batch=True):
        data = region.read()
        before = at
        for position, header in iter_batches(data):
            if not header.is_control:
                yield from records(data, position)
            at = header.last_offset + 1
        if at == before:
            return
