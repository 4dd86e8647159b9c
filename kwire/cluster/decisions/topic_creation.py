"""Creation of topics: by CreateTopics, on first use, and of the coordinators' internal topics.

The settings of a coordinator give the shape of its topic.  Its replication factor is 3 by default,
as in Kafka.  Without an explicit setting it is reduced to the number of brokers, so that a single
broker works without any settings; not where the controllers are Apache Kafka's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.metadata.changes import CreateTopic, Decision
from kwire.cluster.metadata.cordoning import cordoned_brokers, uncordoned_brokers
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.placement import (
    check_manual_assignment,
    new_partition,
    place_partitions,
)
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.topic_names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    TELEMETRY_TOPIC,
    TRANSACTION_STATE_TOPIC,
    why_invalid,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.uuids import random_uuid
from kwire.settings import BrokerConfig
from kwire.settings.check import check_new_topic_configs
from kwire.settings.live import LiveSettings

PARTITIONS_MAX = 10_000
"""Limit of new partitions in one request: Kafka's limit of records in one controller operation."""

DEFAULT = -1
CLUSTER_METADATA_TOPIC = "__cluster_metadata"


@dataclass(slots=True)
class NewTopic:
    """A topic to create; `assignments` are (partition index, replicas) as the client gave them."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: list[tuple[int, list[int]]] = field(default_factory=list)
    configs: dict[str, str | None] = field(default_factory=dict)

    def partition_count(self, config: BrokerConfig) -> int:
        """The number of partitions, by assignment, by number, or by default."""
        if self.assignments:
            return len(self.assignments)
        return config.num_partitions if self.num_partitions == DEFAULT else self.num_partitions


def too_many_partitions() -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    )


def check_size(config: BrokerConfig, wanted: Iterable[NewTopic]) -> None:
    """Raise Refusal if a request asks for more partitions than PARTITIONS_MAX."""
    if sum(topic.partition_count(config) for topic in wanted) > PARTITIONS_MAX:
        raise too_many_partitions()


def creation(
    image: ClusterImage, config: BrokerConfig, wanted: NewTopic, like: Sequence[str]
) -> CreateTopic:
    """Return the change that creates a topic.  Raises Refusal.

    `like` are existing topics whose names differ from the new one only by `.` and `_`.  Kafka
    refuses that, because its metric names do not distinguish them.
    """
    name = wanted.name
    if name == CLUSTER_METADATA_TOPIC:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    reason = why_invalid(name)
    if reason is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name in image.topics:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if like:
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {like[0]}",
        )
    configs = check_new_topic_configs(config, wanted.configs)
    partitions = _partitions(image, config, wanted)
    return CreateTopic(TopicImage(name, random_uuid(os.urandom), tuple(partitions)), configs)


def _partitions(
    image: ClusterImage, config: BrokerConfig, wanted: NewTopic
) -> list[PartitionImage]:
    """Return the new topic's partitions with their replicas.  Raises Refusal.

    The replicas are those that the request assigns, or else are placed on the live brokers that are
    not cordoned.
    """
    if wanted.assignments:
        return _assigned(image, wanted)
    factor = wanted.replication_factor
    if factor < DEFAULT or factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted.num_partitions < DEFAULT or wanted.num_partitions == 0:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor == DEFAULT:
        factor = config.default_replication_factor
    brokers = uncordoned_brokers(image)
    start, shift = _start_and_shift(wanted.name, max(1, len(brokers)))
    count = wanted.partition_count(config)
    try:
        return place_partitions(brokers, count, factor, start=start, shift=shift)
    except Refusal as refusal:
        why = f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        raise Refusal(refusal.error, why) from None


def _start_and_shift(name: str, size: int) -> tuple[int, int]:
    """The first broker and the shift for `assign_replicas`, in a cluster of `size` brokers.

    Apache Kafka draws them at random.  A hash of the name spreads topics as evenly, and a cluster
    that is created again places each topic where it was before, so that a trace of it can be
    replayed.
    """
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:8]) % size, int.from_bytes(digest[8:16]) % size


def _assigned(image: ClusterImage, wanted: NewTopic) -> list[PartitionImage]:
    """Return the partitions of a manual assignment.  Raises Refusal."""
    for value, field_name in (
        (wanted.replication_factor, "replication factor"),
        (wanted.num_partitions, "numPartitions"),
    ):
        if value != DEFAULT:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {field_name} was not set to -1.",
            )
    replicas_of: dict[int, list[int]] = {}
    size = 0
    for index, replicas in wanted.assignments:
        if index in replicas_of:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_manual_assignment(replicas, image.brokers, cordoned_brokers(image), size)
        size = len(replicas)
        replicas_of[index] = replicas
    if set(replicas_of) != set(range(len(replicas_of))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [new_partition(replicas_of[index]) for index in range(len(replicas_of))]


def creations(
    settings: LiveSettings, wanted: Iterable[NewTopic]
) -> list[DecisionOutcome[CreateTopic]]:
    """A decision for each topic of a request.

    As in Kafka, names of the same request may collide with each other.
    """
    created: set[str] = set()

    def create(topic: NewTopic, image: ClusterImage) -> CreateTopic:
        """Return the creation of one topic of the request.  Raises Refusal."""
        # The decision may be repeated, after a commit that conflicts.
        created.discard(topic.name)
        like = [other for other in image.names_like(topic.name) if other not in created]
        change = creation(image, settings.config, topic, like)
        created.add(topic.name)
        return change

    return [DecisionOutcome(partial(create, topic)) for topic in wanted]


def on_first_use(settings: LiveSettings, name: str) -> Decision:
    """Return a decision that creates a topic when a client first uses it.

    The decision makes no change if the topic exists or cannot be created; it never refuses.
    """

    def decide(image: ClusterImage) -> CreateTopic | None:
        """Return the creation; None if the topic exists or cannot be created."""
        if name in image.topics:
            return None
        wanted = by_default(settings.config, name, len(image.brokers))
        try:
            return creation(image, settings.config, wanted, image.names_like(name))
        except Refusal:
            return None

    return decide


def internal_topic(settings: LiveSettings, name: str) -> Decision:
    """Return a decision that creates one of the broker's internal topics if it does not exist.

    Raises Refusal if it cannot be created.
    """
    assert name in INTERNAL_TOPICS or name == TELEMETRY_TOPIC, name

    def decide(image: ClusterImage) -> CreateTopic | None:
        """Return the creation; None if the topic exists.  Raises Refusal."""
        if name in image.topics:
            return None
        wanted = by_default(settings.config, name, len(image.brokers))
        return creation(image, settings.config, wanted, ())

    return decide


def by_default(config: BrokerConfig, name: str, brokers_count: int | None) -> NewTopic:
    """Return a topic as it is created without a specification.

    Internal topics have settings of their own; other topics have all defaults.  The replication
    factor of an internal topic is at most `brokers_count` unless it was set; None: no limit.
    """
    if name == GROUP_METADATA_TOPIC:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            _factor(config, "offsets.topic.replication.factor", brokers_count),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(
            name,
            config.transaction_state_log_num_partitions,
            _factor(config, "transaction.state.log.replication.factor", brokers_count),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        return NewTopic(
            name,
            config.share_coordinator_state_topic_num_partitions,
            _factor(config, "share.coordinator.state.topic.replication.factor", brokers_count),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )
    if name == TELEMETRY_TOPIC:
        return NewTopic(name, 1, configs=_of_telemetry(config.telemetry_max_bytes))
    return NewTopic(name)


TELEMETRY_RETENTION_BYTES = 100 * 1024 * 1024
"""Enough for a week of 10 clients that push 5 kB every 5 minutes, or a day of 70 clients.  Older
metrics are deleted in tenths of it.  retention.bytes of the topic changes it."""

_BATCH_OVERHEAD_BYTES = 64 * 1024


def _of_telemetry(payload_bytes_max: int) -> dict[str, str | None]:
    """Return the configs of the topic for clients' metrics.

    One metrics payload of at most `payload_bytes_max` bytes, plus the batch around it, must fit in
    a batch.
    """
    # max.message.bytes is a signed 32-bit number.
    size_bytes = min(payload_bytes_max + _BATCH_OVERHEAD_BYTES, 2**31 - 1)
    return {
        "cleanup.policy": "delete",
        "max.message.bytes": str(size_bytes),
        "retention.bytes": str(TELEMETRY_RETENTION_BYTES),
        "segment.bytes": str(TELEMETRY_RETENTION_BYTES // 10),
    }


def _factor(config: BrokerConfig, setting: str, brokers_count: int | None) -> int:
    """Return an internal topic's replication factor.

    It is reduced to the number of brokers, if that is given, unless it was set explicitly.
    """
    value: int = getattr(config, setting.replace(".", "_"))
    if brokers_count is None:
        return value
    return value if setting in config.explicit else max(1, min(value, brokers_count))
