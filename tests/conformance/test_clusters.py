"""Tests the clusters that runs start: all brokers are members, with the requested ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance import clusters
from kwire.testing import BrokerStartError
from kwire.testing.cluster import cluster_view

KAFKA_GO = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""A suite's settings, with the authorizer class of clusters without ZooKeeper."""


def members(bootstrap: str) -> list[frozenset[int]]:
    """The members of the cluster as each broker reports them."""
    views = [cluster_view(int(address.rpartition(":")[2])) for address in bootstrap.split(",")]
    assert all(views)
    return [view.members for view in views if view is not None]


@pytest.mark.slow
def test_cluster_of_one_command_has_all_members_until_its_end(tmp_path: Path) -> None:
    with clusters.kwire(tmp_path, 2, {"node.id": "0", "num.partitions": "4"}) as bootstrap:
        assert members(bootstrap) == [frozenset({1, 2})] * 2
    assert not any(members_left(bootstrap))


def members_left(bootstrap: str) -> list[object]:
    return [cluster_view(int(address.rpartition(":")[2])) for address in bootstrap.split(",")]


@pytest.mark.slow
def test_cluster_start_reports_a_refused_setting(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerStartError, match=r"num\.partitions"),
        clusters.kwire(tmp_path, 2, {"num.partitions": "many"}),
    ):
        pass


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize(
    ("start", "first"),
    [
        pytest.param(clusters.kwire_on_zookeeper, 0, id="kwire"),
        pytest.param(clusters.apache_on_zookeeper, 0, id="apache", marks=pytest.mark.long),
        pytest.param(clusters.apache, 1, id="kraft", marks=pytest.mark.long),
    ],
)
def test_cluster_has_ids_from_the_given_one(
    start: clusters.Start,
    first: int,
    tmp_path: Path,
    zookeeper_libs: Path,
    apache_kafka_libs: Path,
) -> None:
    settings = {"node.id": "0", "num.partitions": "4"}
    if start is not clusters.apache:  # whose nodes would have to be superusers
        settings |= KAFKA_GO
    with start(tmp_path, 2, settings) as bootstrap:
        assert members(bootstrap) == [frozenset({first, first + 1})] * 2


def test_starter_returns_the_cluster_of_the_options() -> None:
    assert clusters.starter(oracle=False, zookeeper=False) is clusters.kwire
    assert clusters.starter(oracle=True, zookeeper=False) is clusters.apache
    assert clusters.starter(oracle=False, zookeeper=True) is clusters.kwire_on_zookeeper
    assert clusters.starter(oracle=True, zookeeper=True) is clusters.apache_on_zookeeper
