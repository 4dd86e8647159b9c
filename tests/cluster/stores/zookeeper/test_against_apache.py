"""kwire reads what Apache Kafka 3.9.2 writes to ZooKeeper, and writes the same bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer

from kwire.client.cluster import Cluster
from kwire.cluster.stores.contract import ControllerGone
from kwire.cluster.stores.zookeeper import znodes
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import ZooKeeperProcess
from tests.cluster.observing import PATIENCE_S
from tests.cluster.stores.zookeeper.apache import (
    Znode,
    as_told,
    changes_towards,
    told_by,
    topics_in,
    tree,
)
from tests.cluster.stores.zookeeper.stores import Observed, opened

pytestmark = [pytest.mark.java, pytest.mark.slow]

SETTINGS = {
    "zookeeper.session.timeout.ms": "120000",  # who stands still stays a member
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
}


def client_of(broker: ZooKeeperBroker) -> Cluster:
    return Cluster(f"127.0.0.1:{broker.port}", client_id="asking", timeout_s=PATIENCE_S)


def creation(name: str, *replicas: tuple[int, ...], **configs: str) -> CreateTopicsRequest:
    assigned = [CreatableReplicaAssignment(at, [*each]) for at, each in enumerate(replicas)]
    named = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreateTopicsRequest([CreatableTopic(name, -1, -1, assigned, named)], 120_000)


def append(client: Cluster, topic: str) -> None:
    """Produce a record with acks=1."""
    servers = ",".join(f"{host}:{port}" for host, port in client.bootstrap)
    producer = Producer({"bootstrap.servers": servers, "acks": 1})
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - another process makes it so
            await trio.sleep(0.05)


async def test_observing_store_has_the_metadata_that_apache_kafka_reports(
    zookeeper_broker: ZooKeeperBroker, unique: str
) -> None:
    """At its start a kwire broker also creates the same znodes as an Apache Kafka broker."""
    with client_of(zookeeper_broker) as client:
        client.any().call(creation(unique, (1,), (1,), retention_ms="77"))
        async with opened(zookeeper_broker.zookeeper_connect, 7) as store:

            async def agrees() -> bool:
                return as_told(await topics_in(store)) == told_by(client)

            await eventually(agrees)
            assert unique in await topics_in(store)
            assert store.image.configs_of(2, unique) == {"retention.ms": "77"}
            endpoint = store.image.brokers[1].endpoints[0]
            assert (endpoint.host, endpoint.port) == ("127.0.0.1", zookeeper_broker.port)
            assert store.image.controller_id == 1
            assert not await store.campaign()
            client.any().call(DeleteTopicsRequest([DeleteTopicState(unique)], [unique], 60_000))
            await eventually(agrees)
            assert unique not in await topics_in(store)


@pytest.fixture
def pair(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> Iterator[list[ZooKeeperBroker]]:
    """Brokers 1 and 2, of which 1 is the controller."""
    brokers = [
        ZooKeeperBroker(
            tmp_path / str(number), zookeeper.connect(f"/{unique}/a"), number, settings=SETTINGS
        )
        for number in (1, 2)
    ]
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()


class Both:
    """Apache Kafka's cluster below /a, and kwire's below /b, which repeats each of its steps."""

    def __init__(
        self, zookeeper: ZooKeeperProcess, chroot: str, onlooker: Observed, store: Observed
    ) -> None:
        self._zookeeper, self._chroot = zookeeper, chroot
        self.onlooker, self.store = onlooker, store

    def different(self) -> dict[str, tuple[Znode | None, Znode | None]]:
        """The znodes that differ between the two clusters."""
        theirs, ours = (tree(self._zookeeper.address, f"/{self._chroot}/{each}") for each in "ab")
        pairs = {path: (ours.get(path), theirs.get(path)) for path in {*ours, *theirs}}
        return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}

    def compare(self) -> None:
        assert self.different() == {}

    async def follow(self) -> None:
        """Make the kwire cluster's metadata equal to Apache Kafka's, and compare all znodes.

        Its controller may be at work yet: again, for as long as there is something to follow.
        """
        while True:
            changes = await changes_towards(self.onlooker, self.store)
            await self.store.commit(changes)
            if not changes or not self.different():
                return self.compare()

    async def state(self, name: str, index: int) -> tuple[tuple[int, ...], ...]:
        """Replicas, in-sync replicas, adding and removing replicas of a partition."""
        each = (await topics_in(self.onlooker))[name].partitions[index]
        return each.replicas, each.isr, each.adding, each.removing


@pytest.mark.long
async def test_same_changes_write_the_same_znodes_as_apache_kafka(
    zookeeper: ZooKeeperProcess, pair: list[ZooKeeperBroker], unique: str
) -> None:
    a, b = (zookeeper.connect(f"/{unique}/{each}") for each in "ab")
    async with opened(a, 7) as onlooker, opened(b, 1) as store, opened(b, 2) as second:
        both = Both(zookeeper, unique, onlooker, store)
        for each, broker_id in ((store, 1), (second, 2)):
            await onlooker.shows(lambda image: len(image.brokers) == 2)
            await each.register(replace(onlooker.image.brokers[broker_id], epoch=-1))
        assert await store.campaign()
        both.compare()
        with client_of(pair[0]) as client, client_of(pair[1]) as through_second:
            await _topics_and_configs(both, client)
            await _producer_ids(both, client, through_second, second)
            await _with_a_broker_that_stands_still(both, client, pair[1])
        await _taken_over(both)


async def _topics_and_configs(both: Both, client: Cluster) -> None:
    ask = client.any().call
    ask(creation("t", (1, 2), (2, 1), cleanup_policy="compact", retention_ms="5"))
    await eventually(lambda: _has_states(both, "t", 2))
    await both.follow()
    grown = CreatePartitionsTopic("t", 4, [*map(CreatePartitionsAssignment, ([1, 2], [2, 1]))])
    reply = ask(CreatePartitionsRequest([grown], 60_000))
    assert [each.error_code for each in reply.results] == [0]
    await eventually(lambda: _has_states(both, "t", 4))
    await both.follow()
    ask(creation("u", (1, 2), (2, 1)))
    ask(creation("w", (1,), (1,)))
    await eventually(lambda: _has_states(both, "u", 2))
    await eventually(lambda: _has_states(both, "w", 2))
    await both.follow()
    ask(DeleteTopicsRequest([DeleteTopicState("u")], ["u"], 60_000))

    async def is_gone() -> bool:
        return not {"u"} & {
            *await both.onlooker.session.children(znodes.TOPICS),
            *await both.onlooker.session.children(znodes.DELETE_TOPICS),
        }

    await eventually(is_gone)
    await both.follow()
    for kind, name, configs in (
        (2, "t", {"retention.ms": "9", "segment.bytes": "1000000"}),
        (2, "t", {"cleanup.policy": None}),
        (4, "1", {"log.cleaner.threads": "2"}),
        (4, "", {"message.max.bytes": "2000000", "log.retention.ms": "77"}),
        (4, "1", {"log.cleaner.threads": None}),
    ):
        altered = [
            AlterableConfig(key, int(value is None), value) for key, value in configs.items()
        ]
        resource = AlterConfigsResource(kind, name, altered)
        reply = ask(IncrementalAlterConfigsRequest([resource]))
        assert [each.error_code for each in reply.responses] == [0]
        await both.follow()
    for entity, key in (
        ({"user": "al ice*/\u00e9"}, "consumer_byte_rate"),
        ({"user": None}, "consumer_byte_rate"),
        ({"client-id": "c 1"}, "producer_byte_rate"),
        ({"client-id": None}, "producer_byte_rate"),
        ({"user": "bob", "client-id": "c~1"}, "request_percentage"),
        ({"user": "bob", "client-id": None}, "request_percentage"),
        ({"user": None, "client-id": None}, "request_percentage"),
        ({"ip": "10.0.0.1"}, "connection_creation_rate"),
        ({"ip": None}, "connection_creation_rate"),
    ):
        data = [EntityData(*each) for each in entity.items()]
        reply = ask(AlterClientQuotasRequest([RequestEntryData(data, [OpData(key, 1024.0)])]))
        assert [each.error_code for each in reply.entries] == [0]
        await both.follow()


async def _has_states(both: Both, name: str, count: int) -> bool:
    topic = (await topics_in(both.onlooker)).get(name)
    return topic is not None and (
        [each.partition_epoch >= 0 for each in topic.partitions] == [True] * count
    )


async def _producer_ids(
    both: Both, client: Cluster, through_second: Cluster, second: Observed
) -> None:
    answers: list[InitProducerIdResponse] = []
    for asked, ours in ((client, both.store), (through_second, second)):

        async def has_one(
            asked: Cluster = asked, answers: list[InitProducerIdResponse] = answers
        ) -> bool:
            answers.append(asked.any().call(InitProducerIdRequest(None, 60_000)))
            return answers[-1].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        await eventually(has_one)
        assert answers[-1].error_code == 0
        await ours.allocate_producer_ids(1000)
        both.compare()


async def _with_a_broker_that_stands_still(
    both: Both, client: Cluster, second: ZooKeeperBroker
) -> None:
    """While a broker is paused, the ISR shrinks, and a reassignment and a deletion wait for it."""

    def reassign(index: int, replicas: list[int] | None) -> None:
        topic = ReassignableTopic("w", [ReassignablePartition(index, replicas)])
        request = AlterPartitionReassignmentsRequest(60_000, True, [topic])
        reply = client.controller().call(request)
        codes = [part.error_code for each in reply.responses for part in each.partitions]
        assert [reply.error_code, *codes] == [0, 0]

    async def until(name: str, index: int, *expected: tuple[int, ...]) -> None:
        async def is_so() -> bool:
            return await both.state(name, index) == expected

        await eventually(is_so)
        await both.follow()

    second.pause()
    append(client, "t")  # who has all that there is stays in sync
    await until("t", 0, (1, 2), (1,), (), ())
    reassign(0, [2])
    await until("w", 0, (2, 1), (1,), (2,), (1,))
    reassign(0, None)
    await until("w", 0, (1,), (1,), (), ())
    reassign(1, [2, 1])
    await until("w", 1, (2, 1), (1,), (2,), ())
    second.resume()
    await until("w", 1, (2, 1), (1, 2), (), ())
    await until("t", 0, (1, 2), (1, 2), (), ())
    client.controller().call(ElectLeadersRequest(0, [TopicPartitions("w", [1])], 60_000))

    async def leads() -> bool:
        return (await topics_in(both.onlooker))["w"].partitions[1].leader == 2

    await eventually(leads)
    await both.follow()
    second.pause()
    append(client, "t")  # who has all that there is stays in sync
    await until("t", 0, (1, 2), (1,), (), ())
    client.any().call(DeleteTopicsRequest([DeleteTopicState("t")], ["t"], 1_000))

    async def is_marked() -> bool:
        return await both.onlooker.session.children(znodes.DELETE_TOPICS) == ["t"]

    await eventually(is_marked)
    await both.follow()
    second.resume()


async def _taken_over(both: Both) -> None:
    """The observing store becomes the controller of Apache Kafka's cluster with equal metadata."""
    onlooker = both.onlooker
    before = await topics_in(onlooker)
    await onlooker.session.multi([onlooker.session.delete(znodes.CONTROLLER)])
    await onlooker.next_event(ControllerGone)
    if await onlooker.campaign():  # or an Apache Kafka broker was faster
        assert as_told(dict(onlooker.image.topics.items())) == as_told(before)
        epoch = onlooker.image.controller_epoch
        await onlooker.resign()
        await onlooker.shows(
            lambda image: image.controller_id in (1, 2) and image.controller_epoch == epoch + 1
        )
