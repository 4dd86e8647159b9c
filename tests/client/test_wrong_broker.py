"""The client notices that an address belongs to another broker or cluster (KIP-1242)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kwire.client.cluster
from kwire.cli.app import app
from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.errors import Misuse, WrongBroker
from kwire.client.topics import create_topic
from kwire.testing import BrokerProcess

NOBODY = 7
"""The id of no broker."""


@pytest.fixture
def cluster(shared_broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(shared_broker.bootstrap, timeout_s=120) as known:
        known.refresh([])
        yield known


def move(cluster: Cluster, node_id: int) -> int:
    """Let the client believe that a broker `node_id` is at the address of the one broker.

    Returns the id of the one broker.
    """
    (node,) = cluster.nodes.values()
    cluster.nodes[node_id] = ClusterNode(node_id, node.host, node.port)
    return node.node_id


def test_broker_at_its_address_is_reached(cluster: Cluster) -> None:
    (node_id,) = cluster.nodes
    assert cluster.node(node_id).versions


def test_address_of_another_broker_is_not_used(cluster: Cluster) -> None:
    move(cluster, NOBODY)
    with pytest.raises(WrongBroker, match=r"is not broker 7 of cluster \S+ any longer"):
        cluster.node(NOBODY)
    assert cluster.nodes == {}
    assert cluster.cluster_id is None


def test_address_of_another_cluster_is_not_used(cluster: Cluster) -> None:
    (node_id,) = cluster.nodes
    cluster.cluster_id = "other"
    with pytest.raises(WrongBroker, match=rf"is not broker {node_id} of cluster other any longer"):
        cluster.node(node_id)


def test_retry_finds_the_broker_through_the_bootstrap_servers(
    cluster: Cluster, unique: str
) -> None:
    create_topic(cluster, unique, partitions=1)
    cluster.topic(unique)
    node_id = move(cluster, NOBODY)
    cluster.topics[unique].partitions[0].leader_id = NOBODY
    partition = TopicPartition(unique, 0)
    troubles: list[Exception] = []
    cluster.on_trouble = troubles.append
    connection = cluster.retrying(lambda: cluster.node(cluster.leader_id(partition)))
    assert [type(each) for each in troubles] == [WrongBroker]
    assert connection is cluster.node(node_id)


def test_client_that_does_not_check_reaches_any_broker(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.bootstrap, timeout_s=120, checks_brokers=False) as cluster:
        cluster.refresh([])
        move(cluster, NOBODY)
        assert cluster.node(NOBODY).versions


@pytest.mark.parametrize(
    ("line", "checks"), [("", True), ("metadata.cluster.check.enable=false", False)]
)
def test_client_property_turns_the_check_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, checks: bool
) -> None:
    def refused(*_: object, checks_brokers: bool, **__: object) -> Cluster:
        raise Misuse(f"checks: {checks_brokers}")

    monkeypatch.setattr(kwire.client.cluster, "Cluster", refused)
    properties = tmp_path / "client.properties"
    properties.write_text(line)
    done = CliRunner().invoke(app, ["topics", "list", "--command-config", str(properties)])
    assert f"checks: {checks}" in done.output
