"""`kwire cluster adopt`: a single node's directory in a cluster, kwire's and Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from kazoo.client import KazooClient

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import Operation, Resource, ResourceType, alter_configs, topic_settings
from kwire.client.groups import commit_offsets, fetch_offsets
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import BrokerProcess, ZooKeeperProcess

Kwire = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow

PLACES = [TopicPartition("t", index) for index in range(3)]


def fill(cluster: Cluster) -> None:
    """Three partitions, settings, and a group; the producer takes an id."""
    create_topic(cluster, "t", partitions=3, configs={"retention.ms": "12345678"})
    produce(cluster)
    alter_configs(
        cluster,
        Resource(ResourceType.BROKER, ""),
        {"log.cleaner.threads": (Operation.SET, "2")},
    )
    commit_offsets(cluster, "g", {PLACES[0]: 1})


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
    )


def ends(cluster: Cluster) -> set[int]:
    return set(end_offsets(cluster, PLACES).values())


@pytest.fixture
def single(tmp_path: Path) -> BrokerProcess:
    """A node that was filled, and has stopped."""
    broker = BrokerProcess(tmp_path / "single", {"node.id": "7"})
    with broker, Cluster(broker.bootstrap, timeout_s=240) as cluster:
        fill(cluster)
    return broker


def znodes_below(zookeeper: ZooKeeperProcess, chroot: str) -> list[str]:
    client = KazooClient(zookeeper.address)
    client.start()
    try:
        return client.get_children(chroot) if client.exists(chroot) else []
    finally:
        client.stop()
        client.close()


def test_a_single_node_goes_on_in_a_cluster(
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
        "/config/brokers/<default>",
        "/brokers/topics/__consumer_offsets",
        "/brokers/topics/t",
    ]
    assert done.stderr.startswith("2 topics written for broker 7.")
    again = kwire(*words)
    assert (again.stdout, again.stderr.splitlines()[0]) == (
        "", "0 topics written for broker 7. To serve them:",
    )  # fmt: skip

    member = BrokerProcess(
        single.directory, {"broker.id": "7", "zookeeper.connect": connect}, port=single.port
    )
    with member, Cluster(member.bootstrap, timeout_s=240) as cluster:
        assert observed(cluster) == before
        assert ends(cluster) == {1}
        produce(cluster)
        assert ends(cluster) == {2}

    settings = {"log.dirs": str(single.data_dir)}
    with (
        ZooKeeperBroker(tmp_path / "apache", connect, 7, settings=settings) as apache,
        Cluster(apache.bootstrap, timeout_s=240) as cluster,
    ):
        assert observed(cluster) == before
        assert ends(cluster) == {2}
        produce(cluster)
        assert ends(cluster) == {3}


def test_somebody_elses_zookeeper_is_refused(
    kwire: Kwire, single: BrokerProcess, zookeeper: ZooKeeperProcess
) -> None:
    connect = zookeeper.connect("/adopt-other")
    words = ("cluster", "adopt", "--zookeeper", connect, str(single.data_dir))
    client = KazooClient(zookeeper.address)
    client.start()
    try:
        client.create("/adopt-other/cluster/id", b'{"version":"1","id":"x"}', makepath=True)
        assert "ZooKeeper has the cluster x" in kwire(*words, status=1).stderr
        client.delete("/adopt-other/cluster/id")
        client.create("/adopt-other/brokers/ids/3", b"{}", makepath=True)
        assert "broker 3 is registered" in kwire(*words, status=1).stderr
        client.delete("/adopt-other/brokers/ids/3")
        other = b'{"version":3,"topic_id":"AAAAAAAAQACEAgAAAAAAAA","partitions":{"0":[7]}}'
        client.create("/adopt-other/brokers/topics/t", other, makepath=True)
        refused = kwire(*words, status=1).stderr
        assert "a topic t with the id AAAAAAAAQACEAgAAAAAAAA" in refused
        assert client.get_children("/adopt-other/brokers/topics") == ["t"]
        assert client.exists("/adopt-other/cluster/id") is None
    finally:
        client.stop()
        client.close()


def test_what_was_interrupted_is_finished(
    kwire: Kwire, single: BrokerProcess, zookeeper: ZooKeeperProcess
) -> None:
    """A topic without the states of its last partitions is the node's own, by its id."""
    connect = zookeeper.connect("/adopt-again")
    words = ("cluster", "adopt", "--zookeeper", connect, str(single.data_dir))
    kwire(*words)
    client = KazooClient(zookeeper.address)
    client.start()
    try:
        root = "/adopt-again/brokers/topics/t/partitions"
        states = [client.get(f"{root}/{index}/state")[0] for index in range(3)]
        for index in (1, 2):
            client.delete(f"{root}/{index}", recursive=True)
        done = kwire(*words)
        assert done.stdout == "/brokers/topics/t\n"
        after = [client.get(f"{root}/{index}/state")[0] for index in range(3)]
        assert [each.replace(b":2,", b":1,") for each in after] == states
    finally:
        client.stop()
        client.close()


def test_what_is_no_single_nodes_directory(kwire: Kwire, tmp_path: Path) -> None:
    words = ("cluster", "adopt", "--zookeeper", "127.0.0.1:1", "--timeout", "1")
    assert "has no meta.properties" in kwire(*words, str(tmp_path), status=1).stderr
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    assert "there is no" in kwire(*words, str(tmp_path), status=1).stderr


def test_a_zookeeper_that_is_not_there(kwire: Kwire, single: BrokerProcess) -> None:
    words = ("cluster", "adopt", "--zookeeper", "127.0.0.1:1", "--timeout", "1")
    refused = kwire(*words, str(single.data_dir), status=1)
    assert "127.0.0.1:1" in refused.stderr
