"""A directory with users, rights and quotas goes to and fro between Apache Kafka and kwire.

Of each mechanism either all users stay or all go: at a start Apache Kafka 4.3.1 forgets those who
were added since its last snapshot beside one who was removed, also where it wrote all of that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kwire.client.access.acls import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
    create_acls,
    delete_acls,
    describe_acls,
    only,
)
from kwire.client.access.users import describe_users, remove_passwords, set_passwords
from kwire.client.cluster import Cluster
from kwire.client.quotas import alter_quotas, describe_quotas
from kwire.client.topics import create_topic
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import BrokerProcess
from kwire.testing.hosting.ports import free_port
from tests.conftest import finish
from tests.security.scram_client import SCRAM, SCRAM_512, can_log_in, rights
from tests.security.token_play import wait_until_open

pytestmark = [pytest.mark.java, pytest.mark.slow]

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
ALICE = Acl(
    Resource.TOPIC,
    Pattern.LITERAL,
    "t",
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
DENIED = ALICE._replace(
    pattern=Pattern.PREFIXED, operation=Operation.DELETE, permission=Permission.DENY
)
WRITES = ALICE._replace(operation=Operation.WRITE, name="*")
OTHERS = [
    Acl(
        Resource.GROUP, Pattern.PREFIXED, "g é", "User:*", "10.0.0.1",
        Operation.ALL, Permission.ALLOW,
    ),
    Acl(
        Resource.CLUSTER, Pattern.LITERAL, "kafka-cluster", "User:CN=x,O=y", "*",
        Operation.IDEMPOTENT_WRITE, Permission.ALLOW,
    ),
]  # fmt: skip
QUOTAS: list[tuple[dict[str, str | None], dict[str, float]]] = [
    ({"user": "alice"}, {"producer_byte_rate": 1e6, "request_percentage": 12.5}),
    ({"user": None}, {"consumer_byte_rate": 2e15}),
    ({"client-id": "c*/é"}, {"controller_mutation_rate": 0.25}),
    ({"user": "alice", "client-id": None}, {"consumer_byte_rate": 5.0}),
    ({"user": None, "client-id": "c"}, {"consumer_byte_rate": 6.0}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
    ({"ip": None}, {"connection_creation_rate": 1000.0}),
]


class Swapped:
    """One directory, which the two brokers open in turn, on the same ports."""

    def __init__(self, root: Path) -> None:
        plain, self.sasl, controller = free_port(), free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{self.sasl}"
        protocols = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
        both = {
            "sasl.enabled.mechanisms": f"{SCRAM},{SCRAM_512}",
            f"listener.name.sasl.{SCRAM.lower()}.sasl.jaas.config": MODULE,
            f"listener.name.sasl.{SCRAM_512.lower()}.sasl.jaas.config": MODULE,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.dirs": str(root / "node" / "data"),
            "advertised.listeners": listeners,
        }
        theirs = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        }
        ours = {
            "listeners": listeners,
            "listener.security.protocol.map": protocols,
            "node.id": "1",
        }
        self._node = ApacheKafka(root / "node", port=plain, settings=both | theirs)
        self._ours = BrokerProcess(root / "kwire", both | ours, port=plain)

    @contextmanager
    def apache(self) -> Iterator[Cluster]:
        with self._node, Cluster(f"127.0.0.1:{self._node.port}", timeout_s=120) as client:
            wait_until_open(self.sasl)
            yield client

    @contextmanager
    def kwire(self, *, killed: bool = False) -> Iterator[Cluster]:
        self._ours.start()
        try:
            with Cluster(f"127.0.0.1:{self._ours.port}", timeout_s=120) as client:
                yield client
            if killed:
                self._ours.kill()
        finally:
            finish(self._ours)


def described(client: Cluster) -> dict[str, Any]:
    quotas = describe_quotas(client, {})
    return {
        "users": describe_users(client),
        "acls": describe_acls(client, AclFilter()),
        "quotas": sorted(
            (str(sorted(map(str, each.entity.items()))), dict(each.values)) for each in quotas
        ),
    }


def described_when(
    client: Cluster, *, users: int, acls: int, quotas: int, last: dict[str, float]
) -> dict[str, Any]:
    """Wait for these counts and the quota that was changed last; what is described then.

    Apache Kafka's controller answers a moment before its broker has the change.
    """
    deadline = time.monotonic() + 120
    while True:
        now = described(client)
        counts = len(now["users"]), len(now["acls"]), len(now["quotas"])
        if counts == (users, acls, quotas) and last in [values for _, values in now["quotas"]]:
            return now
        assert time.monotonic() < deadline, now


def test_users_acls_and_quotas_survive_both_takeovers(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    swapped = Swapped(tmp_path)
    with swapped.apache() as client:
        create_topic(client, "t", partitions=1)
        set_passwords(client, {"alice": "first"}, SCRAM, iterations=5000)
        set_passwords(client, {"bob": "bobs"}, SCRAM_512)
        create_acls(client, [ALICE, DENIED, *OTHERS])
        for entity, values in QUOTAS:
            alter_quotas(client, entity, values)
        before = described_when(client, users=2, acls=4, quotas=len(QUOTAS), last=QUOTAS[-1][1])

    with swapped.kwire(killed=True) as client:
        assert described(client) == before
        assert rights(swapped.sasl, "alice", "t", "first") == {"READ", "DESCRIBE"}
        set_passwords(client, {"alice": "second"}, SCRAM)
        set_passwords(client, {"eve": "eves"}, SCRAM)
        remove_passwords(client, ["bob"], SCRAM_512)
        delete_acls(client, [only(ALICE), only(OTHERS[0])])
        create_acls(client, [WRITES])
        alter_quotas(
            client, {"user": "alice"}, {"producer_byte_rate": None, "request_percentage": 7}
        )
        alter_quotas(client, {"ip": None}, {"connection_creation_rate": None})
        alter_quotas(client, {"user": "eve"}, {"controller_mutation_rate": 1e-5})
        before = described(client)
        assert (len(before["acls"]), len(before["quotas"])) == (3, len(QUOTAS))

    with swapped.apache() as client:
        assert described(client) == before
        assert rights(swapped.sasl, "alice", "t", "second") == {"WRITE", "DESCRIBE"}
        assert not can_log_in(swapped.sasl, "bob", "bobs", SCRAM_512)
        assert can_log_in(swapped.sasl, "eve", "eves")
        delete_acls(client, [AclFilter()])
        remove_passwords(client, ["eve"], SCRAM)
        alter_quotas(client, {"user": "eve"}, {"controller_mutation_rate": None})
        alter_quotas(client, {"user": "alice"}, {"request_percentage": 8})
        before = described_when(client, users=1, acls=0, quotas=6, last={"request_percentage": 8.0})

    with swapped.kwire() as client:
        assert described(client) == before
        assert rights(swapped.sasl, "alice", "t", "second") == frozenset()
        assert not can_log_in(swapped.sasl, "eve", "eves")
