"""Apache Kafka 3.9.2 as the other broker: it writes our markers and verifies our transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.peers.peer import Peer
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.runtime.remote_markers import RemoteMarker, RemoteMarkers
from kwire.coordinators.runtime.remote_transactions import (
    PartitionErrors,
    PartitionsQuery,
    RemoteTransactions,
)
from kwire.settings import load
from kwire.settings.live import LiveSettings
from kwire.storage.partitions.txn_marker import TxnMarker
from tests.inside import PATIENCE_S, until

pytestmark = pytest.mark.java

NONE, GONE = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Asker:
    """A broker with one peer, which is Apache Kafka."""

    def __init__(self, broker: ZooKeeperBroker) -> None:
        self.settings = LiveSettings(load(None, {"node.id": "2"}))
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", broker.port)
        known = {broker.broker_id: BrokerImage(broker.broker_id, (endpoint,))}
        self.image = ClusterImage("cluster", brokers=known)


class Producer:
    """A transactional id that Apache Kafka coordinates."""

    def __init__(self, peer: Peer, transactional_id: str) -> None:
        self.peer = peer
        self.transactional_id = transactional_id
        self.id = self.epoch = -1

    async def init(self) -> None:
        with trio.fail_after(PATIENCE_S):
            while True:
                await self._ask(FindCoordinatorRequest(self.transactional_id, 1), 3)
                answer = await self._ask(InitProducerIdRequest(self.transactional_id, 60_000), 4)
                if not answer.error_code:
                    break
                await trio.sleep(0.05)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    async def _ask(self, request: Any, version: int) -> Any:  # noqa: ANN401 - by request
        return await self.peer.call(request, version_max=version)

    async def question(
        self, remote: RemoteTransactions, topic: str, *indexes: int, adds: bool = False
    ) -> list[ErrorCode]:
        answer: Promise[PartitionErrors] = Promise()
        asked = {topic: frozenset(indexes)}
        question = PartitionsQuery(self.transactional_id, self.id, self.epoch, asked, adds, answer)
        remote.ask(self.peer.broker_id, question)
        with trio.fail_after(PATIENCE_S):
            told = await answer.wait()
        return [told[topic, index] for index in indexes]


def _peers_of(asker: Asker) -> Peers:
    return Peers(asker.settings, lambda: asker.image)


@asynccontextmanager
async def asking(broker: ZooKeeperBroker, topic: str) -> AsyncIterator[tuple[Peers, Producer]]:
    """A topic of two partitions, and a producer that has a transactional id of that name."""
    peers = _peers_of(Asker(broker))
    peer = peers.peer(broker.broker_id, Role.FORWARDING)
    wanted = CreatableTopic(topic, 2, 1)

    async def made() -> ErrorCode:
        answer = await peer.call(CreateTopicsRequest([wanted], 30_000))
        [code] = [ErrorCode(each.error_code) for each in answer.topics]
        return code

    with trio.fail_after(PATIENCE_S):
        while (code := await made()) is ErrorCode.INVALID_REPLICATION_FACTOR:
            """Its controller does not count the broker among the living yet."""
    assert code is NONE
    producer = Producer(peer, topic)
    await producer.init()
    yield peers, producer
    peers.close()


async def test_apache_kafka_verifies_partitions_for_kwire(
    zookeeper_broker: ZooKeeperBroker, unique: str
) -> None:
    async with (
        asking(zookeeper_broker, unique) as (peers, producer),
        trio.open_nursery() as nursery,
    ):
        remote = RemoteTransactions(peers, nursery)
        missing = ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.question(remote, unique, 0, 1) == [missing, missing]
        assert await producer.question(remote, unique, 1, adds=True) == [NONE]
        assert await producer.question(remote, unique, 0, 1) == [missing, NONE]
        not_asked = ErrorCode.OPERATION_NOT_ATTEMPTED
        assert await producer.question(remote, unique, 0, 2) == [not_asked, GONE]
        producer.epoch += 1
        assert await producer.question(remote, unique, 1) == [ErrorCode.PRODUCER_FENCED]
        producer.id += 1
        unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await producer.question(remote, unique, 1) == [unknown]


async def test_apache_kafka_writes_markers_of_kwire(
    zookeeper_broker: ZooKeeperBroker, unique: str
) -> None:
    async with (
        asking(zookeeper_broker, unique) as (peers, producer),
        trio.open_nursery() as nursery,
    ):
        remote = RemoteMarkers(peers, nursery, 30_000)
        told: dict[int, ErrorCode] = {}

        async def write(coordinator_epoch: int, *indexes: int) -> dict[int, ErrorCode]:
            told.clear()
            marker = TxnMarker(producer.id, producer.epoch, coordinator_epoch, True, 0)
            for index in indexes:
                item = RemoteMarker(
                    marker,
                    unique,
                    index,
                    lambda _, at, error: told.update({at: error}),
                    lambda: True,
                )
                remote.send(zookeeper_broker.broker_id, item)
            await until(lambda: len(told) == len(indexes))
            return told

        assert await write(5, 0, 1, 2) == {0: NONE, 1: NONE, 2: GONE}
        assert await write(4, 0) == {0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
        assert await write(5, 0) == {0: NONE}
