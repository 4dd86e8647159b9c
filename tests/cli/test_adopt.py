"""`kwire cluster adopt`: a single node's directory in a cluster, kwire's and Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kwire.client.access.acls import Acl, AclFilter, Pattern, Permission, create_acls, describe_acls
from kwire.client.access.acls import Operation as AclOperation
from kwire.client.access.acls import Resource as AclResource
from kwire.client.access.users import describe_users, set_passwords
from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import (
    ConfigAlteration,
    ConfigResource,
    ConfigResourceKind,
    alter_configs,
    topic_settings,
)
from kwire.client.groups import commit_offsets, fetch_offsets
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.client.quotas import alter_quotas, describe_quotas
from kwire.client.topics import create_topic
from kwire.cluster.metadata.features import TRANSACTION_VERSION
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.security.authority import STANDARD, ZOOKEEPERS
from kwire.testing import BrokerProcess, ZooKeeperProcess
from tests.waiting import until, zookeeper_client

Kwire = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow

SUPER_USERS = {"super.users": "User:ANONYMOUS"}
MAY_NOT = Acl(
    AclResource.TOPIC,
    Pattern.LITERAL,
    "t",
    "User:mallory",
    "*",
    AclOperation.READ,
    Permission.DENY,
)
PLACES = [TopicPartition("t", index) for index in range(3)]


def fill(cluster: Cluster) -> None:
    """Three partitions, settings, and a group; the producer takes an id."""
    create_topic(cluster, "t", partitions=3, configs={"retention.ms": "12345678"})
    produce(cluster)
    alter_configs(
        cluster,
        ConfigResource(ConfigResourceKind.BROKER, ""),
        {"log.cleaner.threads": (ConfigAlteration.SET, "2")},
    )
    commit_offsets(cluster, "g", {PLACES[0]: 1})
    alter_configs(
        cluster,
        ConfigResource(ConfigResourceKind.GROUP, "g"),
        {"consumer.session.timeout.ms": (ConfigAlteration.SET, "47000")},
    )
    alter_quotas(cluster, {"user": "alice", "client-id": "app/1"}, {"producer_byte_rate": 1e9})
    alter_quotas(cluster, {"client-id": None}, {"consumer_byte_rate": 2e9})
    set_passwords(cluster, {"alice": "secret"})
    create_acls(cluster, [MAY_NOT])
    wanted = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=1, upgrade_type=2)
    reply = cluster.any().call(UpdateFeaturesRequest(feature_updates=[wanted]))
    assert not reply.error_code, reply.error_message


def produce(cluster: Cluster) -> None:
    producer = Producer(cluster)
    for place in PLACES:
        producer.send("t", b"v", partition=place.partition)
    producer.flush()


def observed(cluster: Cluster) -> object:
    """What is the same wherever the directory is; a broker hears of topics after it began."""
    topic = cluster.retrying(lambda: cluster.topic("t"), unknown_topic_grace_s=120)
    return (
        cluster.cluster_id,
        topic.topic_id,
        topic_settings(cluster, ["t"], ["retention.ms"]),
        fetch_offsets(cluster, "g")[PLACES[0]].offset,
        describe_quotas(cluster, {}),
        describe_users(cluster),
        describe_acls(cluster, AclFilter()),
    )


def transaction_level(cluster: Cluster) -> int:
    """As clients are told it."""
    reply: ApiVersionsResponse = cluster.any().call(ApiVersionsRequest("test", "1"))
    return {each.name: each.max_version_level for each in reply.finalized_features}.get(
        TRANSACTION_VERSION, 0
    )


def ends(cluster: Cluster) -> set[int]:
    return set(end_offsets(cluster, PLACES).values())


@pytest.fixture
def single(tmp_path: Path) -> BrokerProcess:
    """A node that was filled, and has stopped."""
    settings = {"node.id": "7", "authorizer.class.name": STANDARD, **SUPER_USERS}
    broker = BrokerProcess(tmp_path / "single", settings)
    with broker, Cluster(broker.bootstrap, timeout_s=240) as cluster:
        fill(cluster)
    return broker


def znodes_below(zookeeper: ZooKeeperProcess, chroot: str) -> list[str]:
    with zookeeper_client(zookeeper.address) as client:
        return client.get_children(chroot) if client.exists(chroot) else []


def test_adopted_node_serves_its_topics_in_the_cluster(
    kwire: Kwire,
    single: BrokerProcess,
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
) -> None:
    connect = zookeeper.connect("/adopt")
    words = ("cluster", "adopt", "--zookeeper", connect, str(single.data_dir))
    with single, Cluster(single.bootstrap, timeout_s=240) as cluster:
        before = observed(cluster)
        assert "is in use" in kwire(*words, status=1).stderr

    planned = kwire(*words, "--dry-run")
    assert znodes_below(zookeeper, "/adopt") == []
    done = kwire(*words)
    assert done.stdout == planned.stdout
    assert done.stdout.splitlines() == [
        "/cluster/id",
        "/latest_producer_id_block",
        "/feature",
        "/config/brokers/<default>",
        "/config/groups/g",
        "/config/clients/<default>",
        "/config/users/alice",
        "/config/users/alice/clients/app%2F1",
        "/kafka-acl/Topic/t",
        "/brokers/topics/__consumer_offsets",
        "/brokers/topics/t",
    ]
    assert done.stderr.startswith("2 topics written for broker 7.")
    again = kwire(*words)
    assert (again.stdout, again.stderr.splitlines()[0]) == (
        "", "0 topics written for broker 7. Serve them by:",
    )  # fmt: skip

    access = {"authorizer.class.name": ZOOKEEPERS, **SUPER_USERS}
    membership = {"broker.id": "7", "zookeeper.connect": connect}
    member = BrokerProcess(single.directory, {**membership, **access}, port=single.port)
    with member, Cluster(member.bootstrap, timeout_s=240) as cluster:
        assert observed(cluster) == before
        until(lambda: transaction_level(cluster) == 1, "at the level that was asked for")
        assert ends(cluster) == {1}
        produce(cluster)
        assert ends(cluster) == {2}

    settings = {"log.dirs": str(single.data_dir), **access}
    with (
        ZooKeeperBroker(tmp_path / "apache", connect, 7, settings=settings) as apache,
        Cluster(apache.bootstrap, timeout_s=240) as cluster,
    ):
        assert observed(cluster) == before
        assert ends(cluster) == {2}
        produce(cluster)
        assert ends(cluster) == {3}


def test_adopt_refuses_a_zookeeper_with_another_cluster(
    kwire: Kwire, single: BrokerProcess, zookeeper: ZooKeeperProcess
) -> None:
    connect = zookeeper.connect("/adopt-other")
    words = ("cluster", "adopt", "--zookeeper", connect, str(single.data_dir))
    with zookeeper_client(zookeeper.address) as client:
        client.create("/adopt-other/cluster/id", b'{"version":"1","id":"x"}', makepath=True)
        assert "ZooKeeper has metadata of cluster x" in kwire(*words, status=1).stderr
        client.delete("/adopt-other/cluster/id")
        client.create("/adopt-other/brokers/ids/3", b"{}", makepath=True)
        assert "broker 3 is registered" in kwire(*words, status=1).stderr
        client.delete("/adopt-other/brokers/ids/3")
        other = b'{"version":3,"topic_id":"AAAAAAAAQACEAgAAAAAAAA","partitions":{"0":[7]}}'
        client.create("/adopt-other/brokers/topics/t", other, makepath=True)
        refused = kwire(*words, status=1).stderr
        assert "another topic t, with the id AAAAAAAAQACEAgAAAAAAAA" in refused
        assert client.get_children("/adopt-other/brokers/topics") == ["t"]
        assert client.exists("/adopt-other/cluster/id") is None


def test_adopt_finishes_after_an_interruption(
    kwire: Kwire, single: BrokerProcess, zookeeper: ZooKeeperProcess
) -> None:
    """A topic without the states of its last partitions is the node's own, by its id."""
    connect = zookeeper.connect("/adopt-again")
    words = ("cluster", "adopt", "--zookeeper", connect, str(single.data_dir))
    kwire(*words)
    with zookeeper_client(zookeeper.address) as client:
        root = "/adopt-again/brokers/topics/t/partitions"
        states = [client.get(f"{root}/{index}/state")[0] for index in range(3)]
        for index in (1, 2):
            client.delete(f"{root}/{index}", recursive=True)
        done = kwire(*words)
        assert done.stdout == "/brokers/topics/t\n"
        after = [client.get(f"{root}/{index}/state")[0] for index in range(3)]
        assert [each.replace(b":2,", b":1,") for each in after] == states


def test_adopt_refuses_a_directory_of_no_single_node(kwire: Kwire, tmp_path: Path) -> None:
    words = ("cluster", "adopt", "--zookeeper", "127.0.0.1:1", "--timeout", "1")
    assert "has no meta.properties" in kwire(*words, str(tmp_path), status=1).stderr
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    assert "does not exist" in kwire(*words, str(tmp_path), status=1).stderr


def test_adopt_reports_an_unreachable_zookeeper(kwire: Kwire, single: BrokerProcess) -> None:
    words = ("cluster", "adopt", "--zookeeper", "127.0.0.1:1", "--timeout", "1")
    refused = kwire(*words, str(single.data_dir), status=1)
    assert "127.0.0.1:1" in refused.stderr
