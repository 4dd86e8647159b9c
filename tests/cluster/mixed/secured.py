"""Mixed clusters whose brokers log in to each other, with users and their rights.

Each broker has a listener that asks nobody who they are, for a test's own work, and one of SASL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from kwire.cluster.metadata.entities import USER, entity_key
from kwire.security.sasl.scram import credential_of, salted_password
from kwire.testing import ZooKeeperProcess
from kwire.testing.hosting.ports import free_port
from tests.cluster.mixed.clusters import Mixed, mixed
from tests.security.scram_client import SCRAM, SCRAM_512, rights
from tests.waiting import zookeeper_client

MODULES: Final = "org.apache.kafka.common.security"
ADMIN: Final = 'username="admin" password="admin-secret"'
SETTINGS: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},{SCRAM_512}",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required {ADMIN} user_admin="admin-secret";'
    ),
    **{
        f"listener.name.sasl.{mechanism.lower()}.sasl.jaas.config": f"{MODULES}.scram"
        f".ScramLoginModule required {ADMIN};"
        for mechanism in (SCRAM, SCRAM_512)
    },
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
PASSWORD: Final = "pencil"
NONE: Final[frozenset[str]] = frozenset()


class Secured:
    """A mixed cluster, and its brokers' SASL listeners."""

    def __init__(self, cluster: Mixed, ports: Mapping[int, int], connect: str) -> None:
        self.cluster, self.ports, self._connect = cluster, ports, connect

    def sasl_address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.ports[broker_id]}"

    def rights(self, broker_id: int, user: str, topic: str) -> frozenset[str]:
        """Operations on a topic that a broker allows a user; none if it does not show the topic."""
        return rights(self.ports[broker_id], user, topic, PASSWORD)

    @contextmanager
    def znodes(self) -> Iterator[KazooClient]:
        """A ZooKeeper client with the cluster's chroot."""
        with zookeeper_client(self._connect) as client:
            yield client


@contextmanager
def secured(
    zookeeper: ZooKeeperProcess,
    directory: Path,
    chroot: str,
    *kinds: str,
    between: str = "PLAIN",
    settings: Mapping[str, str] | None = None,
) -> Iterator[Secured]:
    """`between` is the mechanism by which brokers log in to each other."""
    ports: dict[int, int] = {}

    def own(broker_id: int, port: int) -> dict[str, str]:
        sasl = ports.setdefault(broker_id, free_port())
        listeners = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}"
        return {"listeners": listeners, "advertised.listeners": listeners}

    connect = zookeeper.connect(chroot)
    if between != "PLAIN":
        _make_admin(zookeeper, chroot, between)
    given = {**SETTINGS, "sasl.mechanism.inter.broker.protocol": between, **(settings or {})}
    with mixed(zookeeper, directory, chroot, *kinds, settings=given, own=own) as cluster:
        yield Secured(cluster, ports, connect)


def _make_admin(zookeeper: ZooKeeperProcess, chroot: str, mechanism: str) -> None:
    """Create a user before any broker runs, as `kafka-configs --zookeeper` does."""
    salt = b"salt" * 6
    salted = salted_password(mechanism, "admin-secret", salt, 4096)
    text = credential_of(mechanism, salted, salt, 4096).text
    path = f"{chroot}/config/{entity_key({USER: 'admin'})[1]}"
    content = f'{{"version":1,"config":{{"{mechanism}":"{text}"}}}}'
    with zookeeper_client(zookeeper.address) as client:
        client.create(path, content.encode(), makepath=True)
