"""The load after which metrics are compared: the same requests to every broker, in the same order.

Each request is sent once and answered before the next one, so that the numbers of requests,
records and bytes follow from this file alone.  Preparation, which has to wait for a broker, comes
first and is not measured.  What shows as a gauge (members, sessions, connections, a waiting fetch)
stays until the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.primitives import Message
from kwire.conformance.wire.broker import (
    GROUP,
    POLL_S,
    READY_TIMEOUT_S,
    TRANSACTION,
    TRANSIENT,
    CaseTopic,
    NotReady,
    RemoteBroker,
    address_of,
)
from kwire.conformance.wire.cases import share_group, streams_group
from kwire.conformance.wire.cases.build import batch, fetch, fill, produce
from kwire.conformance.wire.cases.txn import CaseProducer, create_producer
from kwire.conformance.wire.stage import Stage

PREFIX: Final = "load"
PARTITIONS: Final = 6
VALUE: Final = b"x" * 200
RECORDS: Final = 20
"""Records of a batch."""
NEWEST_FETCHES: Final = 100
"""Fetches in the newest version.  kwire counts a request that waits, Apache Kafka only afterwards;
so the one that waits at the end must be less than 2 % of them."""
GROUP_RESOURCE: Final = 32
GREEDY: Final = "greedy"
"""The client id that is throttled."""
RECORDS_OF_GREEDY: Final = 100
QUOTA_BYTES_PER_S: Final = 1900.0
"""Of the client that produces some 20 kB at once, which a broker counts as 2,080 bytes in each of
ten seconds; so it is throttled for about a second."""
TRANSACTION_MS: Final = 600_000
SESSION_MS: Final = "600000"
"""Members send no more heartbeats after the load, and stay members until the comparison."""
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "group.max.session.timeout.ms": SESSION_MS,
    "group.consumer.max.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.share.max.session.timeout.ms": SESSION_MS,
    "group.share.session.timeout.ms": SESSION_MS,
    "group.streams.max.session.timeout.ms": SESSION_MS,
    "group.streams.session.timeout.ms": SESSION_MS,
}
"""Settings of all brokers, under which the same load has the same effects."""


class Load:
    """A cluster that gets the load, with a connection to each broker for each purpose.

    `plain` has a leader on each broker, `compacted` demands keys, `small` refuses large batches.
    """

    def __init__(self, bootstrap: str) -> None:
        """`bootstrap` has the addresses of all brokers, separated by commas."""
        now_ms = time.time_ns() // 1_000_000
        self.stages: dict[int, Stage] = {}
        for address in bootstrap.split(","):
            broker = RemoteBroker(address_of(address))
            broker.read_versions_and_ids()
            stage = Stage(broker, ApiKey.PRODUCE, broker.served[ApiKey.PRODUCE][1], PREFIX, now_ms)
            self.stages[self._id_of(stage, address)] = stage
        self.ids = sorted(self.stages)
        self.first = self.stages[self.ids[0]]
        controller = self.first.ask(MetadataRequest(topics=[])).controller_id
        self.controller = self.stages[controller]
        """Where administrators' requests go; brokers of a KRaft cluster name any of them."""

    @staticmethod
    def _id_of(stage: Stage, address: str) -> int:
        """Return the id of the broker at an address, which it tells in its metadata."""
        metadata = stage.ask(MetadataRequest(topics=[]))
        (found,) = [
            each.node_id for each in metadata.brokers if each.port == address_of(address)[1]
        ]
        return int(found)

    def prepare(self) -> None:
        """Create topics, groups and producers, and wait until they can be used."""
        self.plain = self.topic("plain")
        self.compacted = self.topic("compacted", cleanup_policy="compact")
        self.small = self.topic("small", max_message_bytes="1000")
        self.transactional = self.topic("transactional")
        self.queue = self.topic("queue")
        self._limit_client()
        self.classic, self.idle = self.first.name("classic"), self.first.name("idle")
        self.consumers, self.sharers = self.first.name("consumers"), self.first.name("sharers")
        self.streamers = self.first.name("streamers")
        self._configure_groups()
        for key in (self.classic, self.idle, self.consumers, self.sharers, self.streamers):
            self.coordinator(key)
        self.producers = [self._producer(f"producer{number}") for number in range(2)]
        self._prepare_share_group()

    def _limit_client(self) -> None:
        """Give one client id a quota that a single batch exceeds."""
        entity = [EntityData("client-id", GREEDY)]
        entry = RequestEntryData(
            entity, [OpData("producer_byte_rate", QUOTA_BYTES_PER_S, remove=False)]
        )
        self.controller.ask(AlterClientQuotasRequest([entry], validate_only=False))

    def _configure_groups(self) -> None:
        """Let groups assign at once; two more topics show that all brokers have the settings."""
        resources = [
            AlterConfigsResource(
                GROUP_RESOURCE, group, [AlterableConfig(*each) for each in configs]
            )
            for group, configs in (
                (self.consumers, [("consumer.assignment.interval.ms", 0, "0")]),
                (self.sharers, [(key, 0, value) for key, value in share_group.SETTINGS.items()]),
                (
                    self.streamers,
                    [(key, 0, value) for key, value in streams_group.SETTINGS.items()],
                ),
            )
        ]
        self.controller.ask(IncrementalAlterConfigsRequest(resources))
        for suffix in ("fence1", "fence2"):
            self.topic(suffix)

    def _producer(self, suffix: str) -> CaseProducer:
        """Return a producer whose transactions may be open until the comparison has ended."""
        coordinator = self.coordinator(self.first.name(suffix), TRANSACTION)
        name = create_producer(coordinator, suffix).transactional_id
        reply = coordinator.ask(InitProducerIdRequest(name, TRANSACTION_MS))
        if reply.error_code:
            raise NotReady(f"producer {name}: {ErrorCode(reply.error_code).name}")
        return CaseProducer(name, reply.producer_id, reply.producer_epoch)

    def _prepare_share_group(self) -> None:
        """Let the share group's partitions begin, which takes a broker some time."""
        leader = self.leader(0)
        fill(leader, self.queue, batch(leader, b"first"))
        coordinator = self.coordinator(self.sharers)
        share_group.join_until_assigned(coordinator, self.sharers, "member", self.queue)
        deadline = time.monotonic() + READY_TIMEOUT_S
        epoch = 0
        topic: CaseTopic | None = self.queue
        while True:
            reply = leader.ask(share_group.fetch(self.sharers, "member", epoch, topic))
            if any(part.acquired_records for each in reply.responses for part in each.partitions):
                break
            if time.monotonic() > deadline:
                raise NotReady("the share group gets no records")
            topic, epoch = None, epoch + 1
        done = share_group.acknowledge(
            self.sharers, "member", epoch + 1, self.queue, (0, 0, [share_group.ACCEPT])
        )
        leader.ask(done)
        self.share_epoch = epoch + 2

    def topic(self, suffix: str, **configs: str) -> CaseTopic:
        """Create a topic with a leader on each broker and a replica on all; `_` stands for `.`."""
        name = self.first.name(suffix)
        assignments = []
        for index in range(PARTITIONS):
            turn = index % len(self.ids)
            replicas = [*self.ids[turn:], *self.ids[:turn]]
            assignments.append(CreatableReplicaAssignment(index, replicas))
        self._create(name, assignments, configs)
        for index in range(PARTITIONS):
            self._wait_for_leader(name, index, self.leader(index))
        return self._described(name, PARTITIONS)

    def topic_on(self, suffix: str, broker_id: int) -> CaseTopic:
        """Create a topic of one partition, with one replica on this broker."""
        name = self.first.name(suffix)
        self._create(name, [CreatableReplicaAssignment(0, [broker_id])], {})
        self._wait_for_leader(name, 0, self.stages[broker_id])
        return self._described(name, 1)

    def _create(
        self, name: str, assignments: list[CreatableReplicaAssignment], configs: Mapping[str, str]
    ) -> None:
        settings = [CreatableTopicConfig(k.replace("_", "."), v) for k, v in configs.items()]
        creatable = CreatableTopic(name, -1, -1, assignments, settings)
        reply = self.controller.ask(CreateTopicsRequest([creatable], 30_000))
        if reply.topics[0].error_code:
            raise NotReady(f"topic {name}: {ErrorCode(reply.topics[0].error_code).name}")

    def _described(self, name: str, partitions: int) -> CaseTopic:
        """Return a topic with its id, for requests."""
        metadata = self.first.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        return CaseTopic(name, metadata.topics[0].topic_id, partitions)

    @staticmethod
    def _wait_for_leader(name: str, index: int, leader: Stage) -> None:
        topics = [ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, -1)])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while leader.ask(request).topics[0].partitions[0].error_code in TRANSIENT:
            if time.monotonic() > deadline:
                raise NotReady(f"partition {index} of {name} has no leader")
            time.sleep(POLL_S)

    def leader(self, partition: int) -> Stage:
        """Return the broker that leads a partition of the load's topics."""
        return self.stages[self.ids[partition % len(self.ids)]]

    def coordinator(self, key: str, key_type: int = GROUP) -> Stage:
        """Return the broker that coordinates a group or transactional id, once it answers."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            found = self.first.ask(request).coordinators[0]
            if found.error_code == ErrorCode.NONE:
                return self.stages[found.node_id]
            if time.monotonic() > deadline:
                raise NotReady(f"no coordinator of {key}")
            time.sleep(POLL_S)

    def finish(self) -> None:
        """Close all connections."""
        for stage in self.stages.values():
            stage.finish()


def versions(stage: Stage, api_key: ApiKey, kind: type[Message]) -> range:
    """Return the versions of a request that the broker serves and the codecs have."""
    oldest, newest = stage.broker.served[api_key]
    return range(max(oldest, kind.MIN_VERSION), min(newest, kind.MAX_VERSION) + 1)


def produce_in_all_versions(load: Load) -> None:
    """Produce in each version, with each codec, to each partition."""
    newest = load.first.broker.served[ApiKey.PRODUCE][1]
    for version in versions(load.first, ApiKey.PRODUCE, type(produce(load.plain, None))):
        for index in range(PARTITIONS):
            stage = load.leader(index)
            stage.send(
                produce(load.plain, batch(stage, *[VALUE] * RECORDS), partition=index), version
            )
    for codec in Compression:
        for index in range(PARTITIONS):
            stage = load.leader(index)
            records = batch(stage, *[VALUE] * RECORDS, compression=codec)
            stage.send(produce(load.plain, records, partition=index, acks=-1), newest)


def produce_with_mistakes(load: Load) -> None:
    """Produce what each broker refuses, for one reason at a time."""
    stage = load.leader(0)
    for _ in range(10):
        stage.send(produce(load.compacted, batch(stage, b"without a key")))
        stage.send(produce(load.small, batch(stage, b"x" * 2000)))
        damaged = batch(stage, b"value")
        damaged[-1] ^= 1
        stage.send(produce(load.plain, damaged))
    stage.send(produce(load.compacted, batch(stage, *[b"v"] * RECORDS, keyed=True)))


def produce_above_the_quota(load: Load) -> None:
    """Produce as the client with a quota; brokers answer at once, and then wait with its next."""
    stage = load.leader(0)
    version = stage.broker.served[ApiKey.PRODUCE][1]
    request = produce(load.plain, batch(stage, *[VALUE] * RECORDS_OF_GREEDY))
    stage.send_bytes(
        request.encode(version),
        version,
        api_key=ApiKey.PRODUCE,
        client_id=GREEDY,
        on=GREEDY,
    )


def fetch_in_all_versions(load: Load) -> None:
    """Read each partition in each version, and from offsets that do not exist."""
    kind = type(fetch(load.plain))
    for version in versions(load.first, ApiKey.FETCH, kind):
        for index in range(PARTITIONS):
            load.leader(index).send(fetch(load.plain, partition=index), version)
    for _ in range(NEWEST_FETCHES):
        load.first.send(fetch(load.compacted))
    for _ in range(10):
        load.leader(0).send(fetch(load.plain, 1 << 40))
        load.leader(0).send(fetch(load.plain, partition=PARTITIONS + 1))


def begin_sessions(load: Load) -> None:
    """Open two fetch sessions of one partition, each on its own connection."""
    for name in ("reader-a", "reader-b"):
        request = fetch(load.plain)
        request.session_epoch = 0
        reply = load.first.send(request, on=name)
        following = fetch(load.plain)
        following.topics = []
        following.session_id, following.session_epoch = reply.session_id, 1
        load.first.send(following, on=name)


def list_offsets_and_metadata(load: Load) -> None:
    """Ask in each version for metadata, offsets and versions."""
    for index in range(PARTITIONS):
        for timestamp in (-1, -2, 0):
            topics = [
                ListOffsetsTopic(load.plain.name, [ListOffsetsPartition(index, -1, timestamp)])
            ]
            load.leader(index).send(ListOffsetsRequest(-1, 0, topics, 10_000))
    for version in versions(load.first, ApiKey.METADATA, MetadataRequest):
        names: Iterable[MetadataRequestTopic] = [MetadataRequestTopic(name=load.plain.name)]
        for stage in load.stages.values():
            stage.send(MetadataRequest(topics=[*names]), version)


STEPS: Final = (
    produce_in_all_versions,
    produce_with_mistakes,
    produce_above_the_quota,
    fetch_in_all_versions,
    begin_sessions,
    list_offsets_and_metadata,
)
"""The load of records and metadata; `coordinated.STEPS` follow."""
