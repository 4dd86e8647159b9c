"""Derives topics and producer ids from the logs in the directories, where no metadata has them."""

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
from kwire.txn.records import UnreadableTransactionRecord, decode

if TYPE_CHECKING:
    from kwire.log.directory.log_dir import LogDir
    from kwire.storage.takeover.reconciling import OnDisk

log = logging.getLogger("kwire.takeover")

ZERO_UUID = bytes(16)
_READ_BYTES = 1 << 20


def folders(directories: list[LogDir]) -> OnDisk:
    """Return the topic ids in the partitions' folders, including strays of Apache Kafka."""
    topic_ids: dict[str, dict[int, bytes | None]] = {}
    for directory in directories:
        for name in directory.folders():
            key = log_dir.parse_partition_folder(name) or _stray(name)
            if key is not None:
                of_topic = topic_ids.setdefault(key[0], {})
                of_topic[key[1]] = topic_id(directory, directory.path / name)
    return topic_ids


def _stray(name: str) -> tuple[str, int] | None:
    """(topic, partition) of `topic-partition.<32 hex digits>-stray`."""
    folder, dot, _ = name.rpartition(".")
    if not dot or not name.endswith(log_dir.STRAY_SUFFIX):
        return None
    return log_dir.parse_partition_folder(folder)


def strays(directories: list[LogDir]) -> Iterator[tuple[LogDir, Path, str, int]]:
    """Yield the stray folders of Apache Kafka: directory, path, topic, partition."""
    for directory in directories:
        for name in directory.folders():
            key = _stray(name)
            if key is not None:
                yield directory, directory.path / name, *key


def topic_id(directory: LogDir, path: Path) -> bytes | None:
    """Return the topic id in a partition's folder; None without one, or if it is damaged."""
    try:
        return partition_metadata.read(directory.files, path)
    except CorruptFile as error:
        log.warning("%s", error)
        return None


def by_topic(logs: LogManager) -> Mapping[str, Mapping[int, Log]]:
    """Return the logs of each topic by partition."""
    by_topic: dict[str, dict[int, Log]] = {}
    for (topic, index), partition_log in logs.logs.items():
        by_topic.setdefault(topic, {})[index] = partition_log
    return by_topic


def topic_of(name: str, partitions: Mapping[int, Log], node_id: int) -> TopicImage | None:
    """Return the topic of these logs; None if they cannot be all partitions of one topic."""
    if sorted(partitions) != list(range(len(partitions))):
        return None
    topic_ids = {partition_log.topic_id for partition_log in partitions.values()} - {ZERO_UUID}
    if len(topic_ids) > 1:
        return None
    new_id = topic_ids.pop() if topic_ids else random_uuid(os.urandom)
    states = (
        PartitionImage(node_id, max(newest_epoch(partitions[index]), 0), 0, (node_id,), (node_id,))
        for index in sorted(partitions)
    )
    return TopicImage(name, new_id, tuple(states))


def newest_epoch(log: Log) -> int:
    """The newest leader epoch that clients may know, even if it has no batches."""
    return max(log.epochs.latest_epoch, log.epochs.latest_loaded)


def producer_ids(logs: LogManager) -> Iterator[int]:
    """All producer ids in the logs, and those of transactional ids."""
    for (topic, _), log in logs.logs.items():
        yield from log.producers.entries
        if topic == TRANSACTION_STATE_TOPIC:
            yield from _producers_of(log)


def _producers_of(transactions: Log) -> Iterator[int]:
    """Yield the producer ids of transactional ids, which stay longer than the producer state of
    logs.
    """
    for record in _records(transactions):
        try:
            entry = decode(record.key, record.value)
        except UnreadableTransactionRecord as error:
            log.warning("%r, offset %d: %s", transactions, record.offset, error)
            continue
        if entry is not None and entry.transaction is not None:
            yield max(entry.transaction.producer_id, entry.transaction.next_producer_id)


def _records(log: Log) -> Iterator[Record]:
    """Yield all records of the log, without those of control batches.

    It ends early if a read makes no progress.
    """
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
