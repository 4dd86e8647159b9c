"""One broker of kwire's and two of Apache Kafka 3.9.2: its tools, and brokers that are killed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.client.topics import create_topic, delete_topic
from kwire.conformance.apache_kafka import ZOOKEEPER_VERSION, run
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import Mixed, mixed, until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

ALL = frozenset((1, 2, 3))
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

Tool = Callable[..., str]


def test_kafkas_tools_with_each_as_the_controller(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    with mixed(zookeeper, tmp_path, f"/{unique}", apache=[2, 3]) as cluster:
        for controller in (1, 2, 3):
            cluster.lead(controller)
            # What the broker before or after the controller is asked is forwarded, or refused.
            asked = cluster.address(1 + controller % 3)

            def tool(name: str, *arguments: str, asked: str = asked) -> str:
                words = ["--bootstrap-server", asked, *arguments]
                done = run(name, words, version=ZOOKEEPER_VERSION)
                assert done.returncode == 0, (name, arguments, done.stdout, done.stderr)
                return done.stdout

            _by_tools(cluster, tool, f"t{controller}", tmp_path)


def _by_tools(cluster: Mixed, tool: Tool, name: str, directory: Path) -> None:
    assignment = ["--replica-assignment", "1:2:3,2:3:1,3:1:2"]
    tool(TOPICS, "--create", "--topic", name, *assignment, "--config", "retention.ms=7777777")
    spread = [(1, (1, 2, 3), ALL), (2, (2, 3, 1), ALL), (3, (3, 1, 2), ALL)]
    cluster.all_say(name, spread)
    values = [str(number) for number in range(300)]
    cluster.produce(name, values, 3)
    tool(TOPICS, "--alter", "--topic", name, "--partitions", "5")
    until(lambda: len(cluster.topic(1, name) or ()) == 5, "grown")
    described = tool(TOPICS, "--describe", "--topic", name)
    assert described.count("ReplicationFactor: 3") == 1
    assert "retention.ms=7777777" in described
    entity = ["--entity-type", "topics", "--entity-name", name]
    tool(CONFIGS, "--alter", *entity, "--add-config", "segment.bytes=2000000")
    tool(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    until(lambda: _only_segment_bytes(tool(CONFIGS, "--describe", *entity)), "set on the topic")
    _reassign(tool, directory, {(name, 0): [2, 3], (name, 1): [3, 1]})
    until(lambda: _first_two(cluster, name) == [(2, 3), (3, 1)], "moved")
    _reassign(tool, directory, {(name, 0): [1, 2, 3], (name, 1): [2, 3, 1]})
    until(lambda: _first_two(cluster, name) == [(1, 2, 3), (2, 3, 1)], "moved back")
    until(lambda: all(isr == ALL for _, _, isr in cluster.topic(1, name) or ()), "in sync")
    tool(ELECTION, "--election-type", "PREFERRED", "--all-topic-partitions")
    until(
        lambda: [each[0] for each in cluster.topic(1, name) or ()][:3] == [1, 2, 3], "as preferred"
    )
    assert sorted(cluster.read(name, 3, 300)) == sorted(values)
    tool(TOPICS, "--delete", "--topic", name)
    cluster.all_say(name, None)


def _leaders(cluster: Mixed, name: str) -> list[int]:
    return [leader for leader, _, _ in cluster.topic(1, name) or ()]


def _only_segment_bytes(described: str) -> bool:
    return "segment.bytes=2000000" in described and "retention.ms" not in described


def _reassign(tool: Tool, directory: Path, plan: dict[tuple[str, int], list[int]]) -> None:
    moves = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for (topic, index), replicas in plan.items()
    ]
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool(REASSIGNMENT, "--reassignment-json-file", str(path), "--execute")


def _first_two(cluster: Mixed, name: str) -> list[tuple[int, ...]]:
    """The replicas of the first two partitions, as all say; nothing while they differ."""
    said = [[each[1] for each in cluster.topic(number, name) or ()][:2] for number in cluster.up]
    return said[0] if all(each == said[0] for each in said) else []


def test_each_broker_is_killed_and_nothing_is_lost(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    settings = {
        "zookeeper.session.timeout.ms": "10000",
        "replica.lag.time.max.ms": "10000",
        "min.insync.replicas": "2",
    }
    with mixed(zookeeper, tmp_path, f"/{unique}", apache=[2, 3], settings=settings) as cluster:
        with cluster.client(1) as client:
            create_topic(client, "t", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
            create_topic(client, "gone", assignment=[[1, 2, 3], [2, 3, 1]])
        with cluster.loaded("t", 3) as acknowledged:
            for victim in (1, 2, 3):
                _outlives(cluster, victim, acknowledged)
        until(lambda: _in_sync(cluster, ALL), "in sync")
        cluster.all_say("gone", None)
        # Each is there, and once: idempotent, the producer has sent some of them twice.
        assert sorted(cluster.read("t", 3, len(acknowledged))) == sorted(acknowledged)
        for index in range(3):
            until(functools.partial(_are_equal, cluster, index), "equal byte for byte")


def _outlives(cluster: Mixed, victim: int, acknowledged: list[str]) -> None:
    """A broker is killed and comes back, and the others go on meanwhile."""
    until(lambda: _in_sync(cluster, ALL), "in sync")
    cluster.kill(victim)
    until(lambda: _in_sync(cluster, ALL - {victim}), "led by the others")
    before = len(acknowledged)
    until(lambda: len(acknowledged) > before + 100, "acknowledged by the others")
    if victim == 1:
        with cluster.client(2) as client:
            delete_topic(client, "gone")
    cluster.start(victim)


def _are_equal(cluster: Mixed, index: int) -> bool:
    return len({cluster.records(each, "t", index) for each in ALL}) == 1


def _in_sync(cluster: Mixed, wanted: frozenset[int]) -> bool:
    """Whether everybody says so, with leaders among them."""
    return all(
        isr == wanted and leader in wanted
        for number in cluster.up
        for leader, _, isr in cluster.topic(number, "t") or [(-1, (), frozenset())]
    )
