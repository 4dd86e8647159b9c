"""Taking over a data directory that came without kwire's metadata: Apache Kafka's, or copied logs.

Topics, ids and epochs are read off the logs.  Configs, the leader epochs of partitions that nobody
wrote to and the next producer id come from the KRaft metadata log, where there is one in the
directories.  In ZooKeeper mode they are not on disk:

- a coordinator's topic gets the configs it would be made with here;
- a topic that was being compacted (`cleaner-offset-checkpoint` says so) goes on being compacted,
  since retention would delete the last value of a key;
- producer ids go on behind the largest that any log or `__transaction_state` mentions.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kwire.codecs.batches import Record, iter_batches, records
from kwire.codecs.uuids import random_uuid
from kwire.controller.topic_creation import by_default
from kwire.log import Log, LogManager
from kwire.log.directory import kraft_metadata
from kwire.metadata.changes import Change, CreateTopic, SetConfigs, TakeProducerIds
from kwire.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.metadata.topic_names import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from kwire.settings import CLUSTER_DEFAULT, ConfigResourceType
from kwire.settings.topic_settings import TopicSettings
from kwire.txn.records import UnreadableRecord, decode

if TYPE_CHECKING:
    from kwire.cluster.store import MetadataStore
    from kwire.metadata.image import ResourceKey
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.takeover")

ZERO_UUID = bytes(16)
_READ_BYTES = 1 << 20


class Takeover:
    """What the directories say of the cluster they come from; asked before the logs are opened."""

    def __init__(self, config: BrokerConfig, logs: LogManager) -> None:
        self._config = config
        self._logs = logs
        self._next_producer_id = 0
        self._kraft: dict[ResourceKey, dict[str, str]] | None = None
        self._leader_epochs: Mapping[bytes, Mapping[int, int]] = {}
        self._compacted = logs.compacted_topics()
        for directory in logs.online_dirs:
            found = kraft_metadata.read(directory.path, logs.files)
            if found is not None:
                self._kraft = found.configs
                self._leader_epochs = found.leader_epochs
                self._next_producer_id = found.next_producer_id

    def configs_of(self, topic: str) -> Mapping[str, str]:
        """The configs that the topic has from now on."""
        if self._kraft is not None:
            return self._known(self._kraft.get((ConfigResourceType.TOPIC, topic), {}))
        if topic in INTERNAL_TOPICS:
            shape = by_default(self._config, topic, brokers_count=1).configs
            return {name: text for name, text in shape.items() if text is not None}
        return {"cleanup.policy": "compact"} if topic in self._compacted else {}

    @staticmethod
    def _known(configs: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in configs.items() if name in TopicSettings.DEFINITIONS}

    async def commit(self, store: MetadataStore, image: ClusterImage) -> ClusterImage:
        """Make the topics of the logs that are open now the cluster's.  Raises StoreError."""
        topics = list(self._topics())
        changes: list[Change] = [CreateTopic(each, self.configs_of(each.name)) for each in topics]
        for (kind, name), values in self._of_brokers().items():
            changes.append(SetConfigs(kind, name, image.configs_of(kind, name), values))
        # nobody is given these
        changes.append(TakeProducerIds(image.next_producer_id, self._producer_ids_used()))
        log.info("found %d topics without metadata and took them over", len(topics))
        return await store.commit(changes)

    def _of_brokers(self) -> dict[ResourceKey, Mapping[str, str]]:
        """What was set on all brokers or on this one while they ran."""
        mine = {CLUSTER_DEFAULT, str(self._config.node_id)}
        return {
            (kind, name): values
            for (kind, name), values in (self._kraft or {}).items()
            if kind == ConfigResourceType.BROKER and name in mine and values
        }

    def _topics(self) -> Iterator[TopicImage]:
        by_topic: dict[str, dict[int, Log]] = {}
        for (topic, index), partition_log in self._logs.logs.items():
            by_topic.setdefault(topic, {})[index] = partition_log
        for name, partitions in by_topic.items():
            if sorted(partitions) != list(range(len(partitions))):
                log.warning("%s is left alone: it lacks some of its partitions", name)
                continue
            known = {each.topic_id for each in partitions.values()} - {ZERO_UUID}
            topic_id = known.pop() if known else random_uuid(os.urandom)
            states = (self._partition(partitions[index]) for index in sorted(partitions))
            yield TopicImage(name, topic_id, tuple(states))

    def _partition(self, log: Log) -> PartitionImage:
        """Led here, in the last epoch that clients may have heard of: they ignore earlier ones."""
        told = self._leader_epochs.get(log.topic_id, {}).get(log.partition, 0)
        me = self._config.node_id
        return PartitionImage(me, max(log.epochs.latest_epoch, told), 0, (me,), (me,))

    def _producer_ids_used(self) -> int:
        """How many ids, from 0 on, somebody may have."""
        largest = self._next_producer_id - 1
        for (topic, _), log in self._logs.logs.items():
            largest = max(largest, max(log.producers.entries, default=-1))
            if topic == TRANSACTION_STATE_TOPIC:
                largest = max(largest, max(_producers_of(log), default=-1))
        return largest + 1


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
