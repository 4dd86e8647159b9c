"""Metadata requests before the controller has sent UpdateMetadata wait."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from kwire.testing import BrokerProcess, ZooKeeperProcess
from kwire.testing.cluster import METADATA_V1, _parse_metadata, _receive_response
from tests.conftest import finish
from tests.inside import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow]

PATIENCE_S = 120.0
ANOTHER = b'{"version":2,"brokerid":9,"timestamp":"1","kraftControllerEpoch":-1}'
"""/controller with a broker that sends no requests."""


class Rival:
    """A client that holds /controller until it resigns."""

    def __init__(self, address: str, chroot: str) -> None:
        self._client = KazooClient(address, timeout=PATIENCE_S)  # else another might be elected
        self._client.start(timeout=PATIENCE_S)
        self._chroot = chroot
        self._controller_path = f"{chroot}/controller"
        self._client.create(self._controller_path, ANOTHER, ephemeral=True, makepath=True)

    def resign(self) -> None:
        self._client.delete(self._controller_path)

    def make_topic(self, name: str) -> None:
        self._client.create(f"{self._chroot}/brokers/topics/{name}", b"{}", makepath=True)

    def close(self) -> None:
        self._client.stop()
        self._client.close()


@pytest.fixture
def rival(zookeeper: ZooKeeperProcess, unique: str) -> Iterator[Rival]:
    with closing(Rival(zookeeper.address, f"/{unique}")) as made:
        yield made


@pytest.fixture
def topics() -> tuple[str, ...]:
    """Topics that exist when the broker starts."""
    return ()


@pytest.fixture
def broker(
    rival: Rival,
    zookeeper: ZooKeeperProcess,
    topics: tuple[str, ...],
    tmp_path: Path,
    unique: str,
) -> Iterator[BrokerProcess]:
    for name in topics:
        rival.make_topic(name)
    connect = zookeeper.connect(f"/{unique}")
    process = BrokerProcess(tmp_path, {"broker.id": "1", "zookeeper.connect": connect})
    process.start()
    yield process
    finish(process)


def test_metadata_request_waits_for_the_first_update_metadata(
    broker: BrokerProcess, rival: Rival
) -> None:
    with closing(socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S)) as link:
        link.sendall(METADATA_V1)
        rival.resign()
        assert _parse_metadata(_receive_response(link)) == (frozenset({1}), 1)


def test_early_admin_client_succeeds_after_the_first_update_metadata(
    broker: BrokerProcess, rival: Rival
) -> None:
    """librdkafka's admin client: after a response without brokers it waits 60 s."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewTopic("t", 1)], operation_timeout=PATIENCE_S)["t"]
    rival.resign()
    made.result(PATIENCE_S)


def update_of(broker: BrokerProcess, *topics: str) -> UpdateMetadataRequest:
    """UpdateMetadata with the broker, and topics with one partition on it."""
    endpoint = UpdateMetadataEndpoint(broker.port, "127.0.0.1", "PLAINTEXT", 0)
    partition = UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=1, leader_epoch=0, isr=[1], replicas=[1]
    )
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=1,
        topic_states=[UpdateMetadataTopicState(name, b"t" * 16, [partition]) for name in topics],
        live_brokers=[UpdateMetadataBroker(1, endpoints=[endpoint])],
    )


@pytest.mark.parametrize(("topics", "answers"), [(("t",), [(), ("t",)]), ((), [()])])
async def test_metadata_request_waits_until_topics_are_known(
    broker: BrokerProcess, topics: tuple[str, ...], answers: list[tuple[str, ...]]
) -> None:
    """A new controller tells who is a member first: librdkafka's producers give records up whose
    topic is gone, and so it would seem."""
    asked = MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    with trio.fail_after(PATIENCE_S):
        client = RawClient.over(await trio.open_tcp_stream("127.0.0.1", broker.port))
        controller = RawClient.over(await trio.open_tcp_stream("127.0.0.1", broker.port))
        await client.send(asked, 9)
        for each in answers:
            answer = await controller.ask(update_of(broker, *each), 8, UpdateMetadataResponse)
            assert answer.error_code == ErrorCode.NONE
        _, known = await client.receive(MetadataResponse, 9)
    assert [each.node_id for each in known.brokers] == [1]
    expected = ErrorCode.NONE if topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in known.topics] == [expected]
