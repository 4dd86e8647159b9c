"""Features that Apache Kafka 3.9 lacks: on in a kwire cluster, off beside an Apache broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.elections import ElectionType, elect_leaders
from kwire.client.reassignments import alter_reassignments
from kwire.client.topics import create_topic
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.conformance.apache_kafka import run
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.cluster.mixed.copying import copying
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow]

OFF: dict[str, int] = {}
ON = {
    "metadata.version": 33,
    "transaction.version": 2,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
}
SETTINGS = {
    "replica.lag.time.max.ms": "6000",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.num.partitions": "2",
}
TOOL = "org.apache.kafka.tools.FeatureCommand"


def finalized_features(cluster: Mixed, broker_id: int) -> tuple[int, dict[str, int]]:
    """Epoch and levels of the finalized features, by ApiVersions on a new connection."""
    with cluster.client(broker_id) as client:
        reply: ApiVersionsResponse = client.any().call(ApiVersionsRequest("test", "1"))
        levels = {each.name: each.max_version_level for each in reply.finalized_features}
        return reply.finalized_features_epoch, levels


def all_report(cluster: Mixed, levels: dict[str, int]) -> int:
    """Wait until each broker reports these features, in the same epoch."""
    until(
        lambda: len({str(finalized_features(cluster, each)) for each in cluster.up}) == 1,
        "of one mind",
    )
    until(lambda: finalized_features(cluster, cluster.up[0])[1] == levels, f"at {levels}")
    until(
        lambda: len({str(finalized_features(cluster, each)) for each in cluster.up}) == 1,
        "of one mind",
    )
    epoch, _ = finalized_features(cluster, cluster.up[0])
    return epoch


def set_transactions(client: Cluster, level: int, kind: int) -> str | None:
    wanted = FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=kind
    )
    reply = client.any().call(UpdateFeaturesRequest(feature_updates=[wanted]))
    message: str | None = reply.error_message
    return message


def test_features_are_off_while_an_apache_kafka_broker_is_a_member(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    kinds = (KWIRE, APACHE)
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=SETTINGS, later=[2]) as cluster:
        alone = all_report(cluster, ON)
        cluster.start(2)
        beside = all_report(cluster, OFF)
        assert beside > alone
        with cluster.client(1) as client:
            refused = set_transactions(client, 2, 1)
            assert refused is not None
            assert refused.endswith("Broker 2 does not support this feature.")
            create_topic(client, "t", assignment=[[2, 1]])
        until(lambda: cluster.in_sync("t"), "in sync")
        cluster.stop(2)  # it is away, and has replicas: it will be back
        until(lambda: cluster.in_sync("t", frozenset((1,))), "led by kwire")
        assert finalized_features(cluster, 1) == (beside, OFF)
        cluster.become(2, KWIRE)
        cluster.start(2)
        assert all_report(cluster, ON) > beside


@pytest.mark.long
def test_transactions_continue_while_an_apache_kafka_broker_joins_and_leaves(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    """An Apache Kafka 4.3 client copies exactly once, in either transaction version.

    What it writes to is led by Apache Kafka's broker as soon as that is there.
    """
    count = 4000
    kinds = (KWIRE, KWIRE, APACHE)
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=SETTINGS, later=[3]) as cluster:
        all_report(cluster, ON)
        values = [str(number) for number in range(count)]
        with cluster.client(1) as client:
            for name in ("in", "out"):
                create_topic(client, name, assignment=[[1, 2]])
        cluster.produce("in", values, 1)
        with copying(cluster, "in", "out", count) as job:
            for _ in range(2):
                _copies_on(cluster, job.done, 300)
                cluster.start(3)
                _move(cluster, "out", [3, 1])
                all_report(cluster, OFF)
                _copies_on(cluster, job.done, 300)
                _move(cluster, "out", [1, 2])
                cluster.stop(3)
                all_report(cluster, ON)
        assert cluster.read("out", 1, count) == values


def _move(cluster: Mixed, topic: str, replicas: list[int]) -> None:
    """Reassign a partition to these replicas and make the first one lead."""
    place = TopicPartition(topic, 0)
    with cluster.client(1) as client:
        assert alter_reassignments(client, {place: replicas}) == {}
        until(lambda: cluster.state(topic)[1] == tuple(replicas), "moved")
        until(lambda: cluster.in_sync(topic), "in sync")
        elect_leaders(client, ElectionType.PREFERRED, [place])
        until(lambda: cluster.state(topic)[0] == replicas[0], "led")


def _copies_on(cluster: Mixed, is_done: Callable[[], bool], records: int) -> None:
    until(lambda: cluster.topic(1, "out"), "out there")
    before = cluster.end("out", 0)
    until(lambda: is_done() or cluster.end("out", 0) > before + records, "copied on")


@pytest.mark.long
def test_kafkas_tool_shows_and_sets_levels_of_a_cluster(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    """The tool finds the controller, whichever broker it starts with."""
    with mixed(zookeeper, tmp_path, f"/{unique}", KWIRE, KWIRE, settings=SETTINGS) as cluster:
        all_report(cluster, ON)
        for asked in (1, 2):
            words = ["--bootstrap-server", cluster.address(asked)]
            level = "--feature", "transaction.version=1"
            done = run(TOOL, [*words, "downgrade", *level])
            assert "transaction.version was downgraded to 1" in done.stdout, done.stderr
            all_report(cluster, {**ON, "transaction.version": 1})
            done = run(TOOL, [*words, "upgrade", "--feature", "transaction.version=2"])
            assert "transaction.version was upgraded to 2" in done.stdout, done.stderr
            all_report(cluster, ON)
