"""A directory with users, rights, quotas and levels goes to and fro between Apache Kafka and kwire.

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
from kwire.cluster.decisions.feature_updates import SAFE_DOWNGRADE, UPGRADE
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.codecs.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.conformance.apache_kafka import TOOLS_VERSION, VERSION, ApacheKafka
from kwire.testing import BrokerProcess
from kwire.testing.hosting.ports import free_port
from tests.conftest import finish
from tests.polling import until
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
        Resource.GROUP, Pattern.PREFIXED, "g é", "User:*", "10.1.2.3/8",
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
        self._nodes = {
            version: ApacheKafka(root / "node", port=plain, settings=both | theirs, version=version)
            for version in (VERSION, TOOLS_VERSION)
        }
        self._ours = BrokerProcess(root / "kwire", both | ours, port=plain)

    @contextmanager
    def apache(self, version: str = VERSION) -> Iterator[Cluster]:
        node = self._nodes[version]
        with node, Cluster(f"127.0.0.1:{node.port}", timeout_s=120) as client:
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


def levels(client: Cluster) -> dict[str, int]:
    """The levels of the finalized features."""
    reply: ApiVersionsResponse = client.any().call(ApiVersionsRequest("test", "1"))
    return {each.name: each.max_version_level for each in reply.finalized_features}


def set_levels(client: Cluster, upgrade_type: int, **wanted: int) -> None:
    """Set features to these levels; their names are given with `_` for `.`."""
    updates = [
        FeatureUpdateKey(name.replace("_", "."), level, upgrade_type=upgrade_type)
        for name, level in wanted.items()
    ]
    reply: UpdateFeaturesResponse = client.any().call(
        UpdateFeaturesRequest(feature_updates=updates)
    )
    assert (reply.error_code, reply.error_message) == (0, None)


def wait_until_led(client: Cluster, topic: str) -> None:
    """Wait until the broker leads partition 0 of the topic."""

    def is_led() -> bool:
        request = MetadataRequest([MetadataRequestTopic(name=topic)])
        reply: MetadataResponse = client.any().call(request)
        return [each.leader_id for each in reply.topics[0].partitions] == [1]

    until(is_led, f"{topic} is not led")


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
        formatted = levels(client)
        assert (formatted["metadata.version"], formatted["share.version"]) == (33, 2)
        set_levels(client, SAFE_DOWNGRADE, share_version=1, eligible_leader_replicas_version=0)

    with swapped.apache() as client:
        assert described(client) == before
        assert rights(swapped.sasl, "alice", "t", "second") == {"WRITE", "DESCRIBE"}
        assert not can_log_in(swapped.sasl, "bob", "bobs", SCRAM_512)
        assert can_log_in(swapped.sasl, "eve", "eves")
        moved = {name: level for name, level in formatted.items() if not name.startswith("elig")}
        assert levels(client) == {**moved, "share.version": 1}
        wait_until_led(client, "t")
        set_levels(client, UPGRADE, share_version=2)
        delete_acls(client, [AclFilter()])
        remove_passwords(client, ["eve"], SCRAM)
        alter_quotas(client, {"user": "eve"}, {"controller_mutation_rate": None})
        alter_quotas(client, {"user": "alice"}, {"request_percentage": 8})
        before = described_when(client, users=1, acls=0, quotas=6, last={"request_percentage": 8.0})

    with swapped.kwire() as client:
        assert described(client) == before
        assert rights(swapped.sasl, "alice", "t", "second") == frozenset()
        assert not can_log_in(swapped.sasl, "eve", "eves")
        assert levels(client) == moved


@pytest.mark.long
def test_directory_of_4_3_stays_at_its_levels_until_they_are_moved(
    apache_kafka_libs: Path, apache_kafka_tools: Path, tmp_path: Path
) -> None:
    """From Apache Kafka 4.3.1 to kwire and back; kwire then raises the levels for 4.4.0."""
    swapped = Swapped(tmp_path)
    with swapped.apache(TOOLS_VERSION) as client:
        create_topic(client, "t", partitions=1)
        create_acls(client, [ALICE])
        of_4_3 = levels(client)
        assert (of_4_3["metadata.version"], of_4_3["share.version"]) == (30, 1)
    with swapped.kwire() as client:
        assert levels(client) == of_4_3
        create_acls(client, [WRITES])
        create_topic(client, "u", partitions=2)
    with swapped.apache(TOOLS_VERSION) as client:
        assert levels(client) == of_4_3
        assert {each.name for each in describe_acls(client, AclFilter())} == {"t", "*"}
        wait_until_led(client, "t")
    with swapped.kwire() as client:
        set_levels(client, UPGRADE, metadata_version=33, share_version=2)
        create_acls(client, [ALICE._replace(host="10.0.0.0/8")])
        raised = levels(client)
        assert raised == {**of_4_3, "metadata.version": 33, "share.version": 2}
    with swapped.apache() as client:
        assert levels(client) == raised
        hosts = {each.host for each in describe_acls(client, AclFilter())}
        assert hosts == {"*", "10.0.0.0/8"}
        wait_until_led(client, "t")
        set_levels(client, SAFE_DOWNGRADE, share_version=1)
    with swapped.kwire() as client:
        assert levels(client) == {**raised, "share.version": 1}
