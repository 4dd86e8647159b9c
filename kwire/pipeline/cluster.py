"""The topics, groups and offsets of a job's cluster; requests are repeated until it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.librdkafka import settings_of
from kwire.pipeline.source import Kafka
from kwire.pipeline.transactional import AGAIN, LOG_LEVEL

if TYPE_CHECKING:
    from confluent_kafka import Consumer

R = TypeVar("R")

PartitionId = tuple[str, int]

REQUEST_S = 10.0
BACKOFF_S = 0.2
PATIENCE_S = 120.0
"""How long a cluster may be unavailable before the job fails."""


class Insist(Protocol):
    """Repeats a call while the cluster is unavailable or not ready."""

    def __call__(self, ask: Callable[[], R], /) -> R: ...


@dataclass(frozen=True)
class PipelineTopic:
    """A topic: its id (its name if the cluster has no topic ids), and its number of partitions."""

    name: str
    id: str
    partitions: int

    def places(self) -> list[PartitionId]:
        """Its partitions."""
        return [(self.name, number) for number in range(self.partitions)]


@dataclass(frozen=True)
class CommittedPosition:
    """A committed offset and its metadata."""

    offset: int
    metadata: str


class ClusterAdmin:
    """An admin client for a cluster.  Its methods raise PipelineError if the cluster is down."""

    def __init__(self, kafka: Kafka, *, patience_s: float = PATIENCE_S) -> None:
        """`patience_s` is how long, in seconds, a request is repeated until the cluster answers.
        Raises PipelineError if librdkafka refuses the properties of `kafka`."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.kafka = kafka
        self.settings: dict[str, Any] = {"log_level": LOG_LEVEL, **settings_of(kafka)}
        self._patience_s = patience_s
        try:
            self._admin = AdminClient(self.settings)
        except KafkaException as failed:
            raise PipelineError(f"{kafka.bootstrap}: {failed.args[0].str()}") from failed

    def close(self) -> None:
        """Drop the client; no method may be called after that.

        Spark keeps the functions of a query, and what they refer to, as long as the process runs.
        A client that is still referenced would keep connecting to its cluster.
        """
        if hasattr(self, "_admin"):
            del self._admin

    @cached_property
    def id(self) -> str:
        """The cluster's id; its bootstrap address if it has no id."""
        described = self._one(lambda: self._admin.describe_cluster(request_timeout=REQUEST_S))
        return described.cluster_id or self.kafka.bootstrap

    def names(self) -> list[str]:
        """The names of all topics."""
        return sorted(self.insist(lambda: self._admin.list_topics(timeout=REQUEST_S).topics))

    def topics(self) -> dict[str, PipelineTopic]:
        """All topics by their names."""
        from confluent_kafka import TopicCollection

        names = self.names()
        if not names:
            return {}
        described = self._all(
            lambda: self._admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_S),
            absent="UNKNOWN_TOPIC_OR_PART",
        )
        return {
            name: PipelineTopic(name, str(found.topic_id or name), len(found.partitions))
            for name, found in described.items()
        }

    def settings_of_topics(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings of each topic that were set on the topic itself, without defaults."""
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        described = self._all(
            lambda: self._admin.describe_configs(resources, request_timeout=REQUEST_S)
        )
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            resource.name: {
                entry.name: entry.value for entry in entries.values() if entry.source == own
            }
            for resource, entries in described.items()
        }

    def create_topic(
        self, name: str, partitions: int, settings: Mapping[str, str], replication: int | None
    ) -> bool:
        """Create a topic; returns False if it exists."""
        from confluent_kafka.admin import NewTopic

        new = NewTopic(
            name, partitions, -1 if replication is None else replication, config=dict(settings)
        )
        made = self._all(
            lambda: self._admin.create_topics([new], request_timeout=REQUEST_S),
            absent="TOPIC_ALREADY_EXISTS",
        )
        return name in made

    def add_partitions(self, name: str, total: int) -> None:
        """Raise a topic's number of partitions to `total`."""
        from confluent_kafka.admin import NewPartitions

        self._all(
            lambda: self._admin.create_partitions(
                [NewPartitions(name, total)], request_timeout=REQUEST_S
            )
        )

    def change_settings(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set a topic's settings; None resets one to its default."""
        from confluent_kafka.admin import (
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
            ResourceType,
        )

        entries = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            if value is not None
            else ConfigEntry(setting, None, incremental_operation=AlterConfigOpType.DELETE)
            for setting, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._all(
            lambda: self._admin.incremental_alter_configs([resource], request_timeout=REQUEST_S)
        )

    def ends(
        self, partitions: Iterable[PartitionId], *, earliest: bool = False
    ) -> dict[PartitionId, int]:
        """The last stable offset of each partition, or with `earliest` its log start offset."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if earliest else OffsetSpec.latest()
        specs = {TopicPartition(*partition): spec for partition in partitions}
        if not specs:
            return {}
        offsets = self._all(
            lambda: self._admin.list_offsets(
                specs,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=REQUEST_S,
            )
        )
        return {(place.topic, place.partition): info.offset for place, info in offsets.items()}

    def groups(self) -> list[str]:
        """The names of all consumer groups."""
        listed = self._one(lambda: self._admin.list_consumer_groups(request_timeout=REQUEST_S))
        return sorted(group.group_id for group in listed.valid)

    def active_groups(self, names: list[str]) -> set[str]:
        """The groups among `names` that have members."""
        from confluent_kafka import ConsumerGroupState

        if not names:
            return set()
        described = self._all(
            lambda: self._admin.describe_consumer_groups(names, request_timeout=REQUEST_S),
            absent="GROUP_ID_NOT_FOUND",
        )
        idle = {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}
        return {name for name, found in described.items() if found.state not in idle}

    @contextmanager
    def member(self, group: str) -> Iterator[GroupOffsets]:
        """Access to the committed offsets of a group."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            self.settings
            | {
                "group.id": group,
                "isolation.level": "read_committed",  # asks for stable offsets, KIP-447
                "enable.auto.commit": False,
                "error_cb": lambda error: None,
            }
        )
        try:
            yield GroupOffsets(group, consumer, self.insist)
        finally:
            consumer.close()

    def _one(self, ask: Callable[[], Future[Any]]) -> Any:  # noqa: ANN401 - the client's answer
        return self.insist(lambda: ask().result())

    def _all(
        self, ask: Callable[[], Mapping[Any, Future[Any]]], absent: str | None = None
    ) -> dict[Any, Any]:
        """All results by key, without those that failed with the error `absent`."""
        from confluent_kafka import KafkaError, KafkaException

        left_out = getattr(KafkaError, absent) if absent else None

        def results() -> dict[Any, Any]:
            """Sends the request and waits for all results.  Those with the error `left_out` are
            left out."""
            found = {}
            for key, future in ask().items():
                try:
                    found[key] = future.result()
                except KafkaException as failed:
                    if failed.args[0].code() != left_out:
                        raise
            return found

        return self.insist(results)

    def insist(self, ask: Callable[[], R]) -> R:
        """Repeat a call while the cluster is unavailable or not ready.  Raises PipelineError."""
        from confluent_kafka import KafkaError, KafkaException

        passing = {getattr(KafkaError, name) for name in AGAIN}
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return ask()
            except KafkaException as failed:
                error = failed.args[0]
                if error.code() not in passing or time.monotonic() > deadline:
                    raise PipelineError(f"{self.kafka.bootstrap}: {error.str()}") from failed
                time.sleep(BACKOFF_S)


class GroupOffsets:
    """The committed offsets of one group, by a consumer without a subscription.

    librdkafka's admin client could list them, too, but it crashes the process while the coordinator
    is moving.
    """

    def __init__(self, group: str, consumer: Consumer, insist: Insist) -> None:
        self._group = group
        self._consumer = consumer
        self._insist = insist

    def read(self, partitions: Iterable[PartitionId]) -> dict[PartitionId, CommittedPosition]:
        """The committed offsets of these partitions, without open transactions (KIP-447)."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(*partition) for partition in partitions]
        if not places:
            return {}
        results = self._insist(lambda: self._consumer.committed(places, REQUEST_S))
        return {
            (place.topic, place.partition): CommittedPosition(place.offset, place.metadata or "")
            for place in results
            if place.error is None and place.offset >= 0
        }

    def commit(self, offsets: Mapping[PartitionId, CommittedPosition]) -> bool:
        """Commit offsets of a group without members; returns False if it has members."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        places = [
            TopicPartition(topic, partition, committed.offset, committed.metadata)
            for (topic, partition), committed in offsets.items()
        ]

        def commit() -> bool:
            """Commits once.  Returns False if the group has members: the coordinator then refuses
            commits of a client that is none."""
            try:
                done = self._consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as failed:
                if failed.args[0].code() in (
                    KafkaError.UNKNOWN_MEMBER_ID,
                    KafkaError.ILLEGAL_GENERATION,
                ):
                    return False
                raise
            for place in done:
                if place.error is not None:
                    raise KafkaException(place.error)
            return True

        return self._insist(commit)
