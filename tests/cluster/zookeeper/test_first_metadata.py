"""What a broker tells clients before it has been told who is in its cluster: nothing yet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from kwire.testing import BrokerProcess, ZooKeeperProcess
from kwire.testing.cluster import METADATA_V1, _read_membership, _received
from tests.conftest import finish

pytestmark = [pytest.mark.java, pytest.mark.slow]

PATIENCE_S = 120.0
ANOTHER = b'{"version":2,"brokerid":9,"timestamp":"1","kraftControllerEpoch":-1}'
"""A controller that tells nobody anything."""


class Rival:
    """Holds the office of controller until it resigns."""

    def __init__(self, address: str, chroot: str) -> None:
        self._client = KazooClient(address)
        self._client.start(timeout=PATIENCE_S)
        self._office = f"{chroot}/controller"
        self._client.create(self._office, ANOTHER, ephemeral=True, makepath=True)

    def resign(self) -> None:
        self._client.delete(self._office)

    def close(self) -> None:
        self._client.stop()
        self._client.close()


@pytest.fixture
def rival(zookeeper: ZooKeeperProcess, unique: str) -> Iterator[Rival]:
    with closing(Rival(zookeeper.address, f"/{unique}")) as made:
        yield made


@pytest.fixture
def broker(
    rival: Rival, zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str
) -> Iterator[BrokerProcess]:
    connect = zookeeper.connect(f"/{unique}")
    process = BrokerProcess(tmp_path, {"broker.id": "1", "zookeeper.connect": connect})
    process.start()
    yield process
    finish(process)


def test_metadata_wait_for_the_controllers_first_word(broker: BrokerProcess, rival: Rival) -> None:
    with closing(socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S)) as link:
        link.sendall(METADATA_V1)
        rival.resign()
        assert _read_membership(_received(link)) == (frozenset({1}), 1)


def test_an_admin_client_that_is_early_has_its_way(broker: BrokerProcess, rival: Rival) -> None:
    """librdkafka's: told of no broker by any, it does not ask again within 60 s."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewTopic("t", 1)], operation_timeout=PATIENCE_S)["t"]
    rival.resign()
    made.result(PATIENCE_S)
