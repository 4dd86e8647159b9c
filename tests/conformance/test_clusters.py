"""The clusters that runs start for themselves: all are there, by the ids that were asked."""

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
"""A suite's settings, which name the class of a cluster without ZooKeeper."""


def members(bootstrap: str) -> list[frozenset[int]]:
    """What each broker knows."""
    known = [cluster_view(int(each.rpartition(":")[2])) for each in bootstrap.split(",")]
    assert all(known)
    return [each.members for each in known if each is not None]


@pytest.mark.slow
def test_a_cluster_of_one_command(tmp_path: Path) -> None:
    with clusters.kwire(tmp_path, 2, {"node.id": "0", "num.partitions": "4"}) as bootstrap:
        assert members(bootstrap) == [frozenset({1, 2})] * 2
    assert not any(members_left(bootstrap))


def members_left(bootstrap: str) -> list[object]:
    return [cluster_view(int(each.rpartition(":")[2])) for each in bootstrap.split(",")]


@pytest.mark.slow
def test_a_setting_that_is_refused_is_told(tmp_path: Path) -> None:
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
def test_a_cluster_from_an_id_on(
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


def test_who_is_the_peer_of_whom() -> None:
    assert clusters.starter(oracle=False, zookeeper=False) is clusters.kwire
    assert clusters.starter(oracle=True, zookeeper=False) is clusters.apache
    assert clusters.starter(oracle=False, zookeeper=True) is clusters.kwire_on_zookeeper
    assert clusters.starter(oracle=True, zookeeper=True) is clusters.apache_on_zookeeper
