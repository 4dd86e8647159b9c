"""Brokers of kwire's and of Apache Kafka 3.9.2, three in all: its tools, with either as controller,
and brokers that are killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.client.topics import create_topic, delete_topic
from kwire.conformance.apache_kafka import ZOOKEEPER_VERSION, run
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

ALL = frozenset((1, 2, 3))
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

Tool = Callable[..., str]


KINDS = [(KWIRE, APACHE, APACHE), (KWIRE, KWIRE, APACHE)]
MOVED = 5000
"""Number of records of 1 kB: a follower throttled to 1 kB/s fetches up to 1 MB at once."""


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_kafka_tools_work_with_either_kind_as_controller(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
) -> None:
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds) as cluster:
        for controller in (1, 3):
            cluster.lead(controller)
            # What the broker before or after the controller is asked is forwarded, or refused.
            tool = _tool(cluster, 1 + controller % 3)
            _by_tools(cluster, tool, f"t{controller}", tmp_path)
            _cancelled(cluster, tool, f"c{controller}", tmp_path)


def _tool(cluster: Mixed, asked: int) -> Tool:
    def run_tool(name: str, *arguments: str) -> str:
        words = ["--bootstrap-server", cluster.address(asked), *arguments]
        done = run(name, words, version=ZOOKEEPER_VERSION)
        assert done.returncode == 0, (name, arguments, done.stdout, done.stderr)
        return done.stdout

    return run_tool


def _cancelled(cluster: Mixed, tool: Tool, name: str, directory: Path) -> None:
    """A slow reassignment to the third broker is cancelled."""
    tool(TOPICS, "--create", "--topic", name, "--replica-assignment", "1:2")
    values = [f"{number:04}{'x' * 1000}" for number in range(MOVED)]
    cluster.produce(name, values, 1)
    path = _plan(directory, {(name, 0): [1, 3]})
    tool(REASSIGNMENT, "--reassignment-json-file", path, "--execute", "--throttle", "1000")
    until(lambda: cluster.state(name)[1] == (1, 3, 2), "moving")
    output = tool(REASSIGNMENT, "--reassignment-json-file", path, "--verify")
    assert f"Reassignment of partition {name}-0 is still in progress" in output
    tool(REASSIGNMENT, "--reassignment-json-file", path, "--cancel")
    cluster.all_say(name, [(1, (1, 2), frozenset((1, 2)))])
    back = _plan(directory, {(name, 0): [1, 2]})
    output = tool(REASSIGNMENT, "--reassignment-json-file", back, "--verify")
    assert f"Reassignment of partition {name}-0 is completed" in output
    assert cluster.read(name, 1, MOVED) == values
    tool(TOPICS, "--delete", "--topic", name)
    cluster.all_say(name, None)


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
    plan = {(name, 0): [1, 2, 3], (name, 1): [2, 3, 1]}
    _reassign(tool, directory, plan)
    until(lambda: _first_two(cluster, name) == [(1, 2, 3), (2, 3, 1)], "moved back")
    output = tool(REASSIGNMENT, "--reassignment-json-file", _plan(directory, plan), "--verify")
    assert output.count("is completed") == 2
    until(lambda: all(isr == ALL for _, _, isr in cluster.topic(1, name) or ()), "in sync")
    tool(ELECTION, "--election-type", "PREFERRED", "--all-topic-partitions")
    until(
        lambda: [each[0] for each in cluster.topic(1, name) or ()][:3] == [1, 2, 3], "as preferred"
    )
    assert sorted(cluster.read(name, 3, 300)) == sorted(values)
    tool(TOPICS, "--delete", "--topic", name)
    cluster.all_say(name, None)


def _only_segment_bytes(described: str) -> bool:
    return "segment.bytes=2000000" in described and "retention.ms" not in described


def _plan(directory: Path, plan: dict[tuple[str, int], list[int]]) -> str:
    moves = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for (topic, index), replicas in plan.items()
    ]
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return str(path)


def _reassign(tool: Tool, directory: Path, plan: dict[tuple[str, int], list[int]]) -> None:
    tool(REASSIGNMENT, "--reassignment-json-file", _plan(directory, plan), "--execute")


def _first_two(cluster: Mixed, name: str) -> list[tuple[int, ...]]:
    """The replicas of the first two partitions; none while brokers report different ones."""
    replicas = [
        [each[1] for each in cluster.topic(number, name) or ()][:2] for number in cluster.up
    ]
    return replicas[0] if all(each == replicas[0] for each in replicas) else []


BRIEF = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "6000",
    "min.insync.replicas": "1",
}


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_unclean_election_truncates_the_other_replica(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
) -> None:
    """An out-of-sync replica leads after an administrator's request; the other one truncates."""
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=BRIEF) as cluster:
        for controller, (first, second) in ((1, (2, 3)), (3, (1, 2)), (2, (3, 1))):
            cluster.lead(controller)
            _unclean(cluster, f"u{controller}", controller, first, second)


def _unclean(cluster: Mixed, name: str, controller: int, first: int, second: int) -> None:
    tool = _tool(cluster, controller)
    tool(TOPICS, "--create", "--topic", name, "--replica-assignment", f"{first}:{second}")
    both = frozenset((first, second))
    until(lambda: cluster.in_sync(name, both), "in sync")
    cluster.produce(name, [str(number) for number in range(100)], 1)
    cluster.kill(second)
    until(lambda: cluster.in_sync(name, frozenset((first,))), "without the other")
    cluster.produce(name, [f"alone {number}" for number in range(50)], 1)
    cluster.kill(first)
    cluster.start(second)
    until(lambda: _leader(cluster, controller, name) == -1, "without a leader")
    place = ["--topic", name, "--partition", "0"]
    tool(ELECTION, "--election-type", "UNCLEAN", *place)
    until(lambda: cluster.in_sync(name, frozenset((second,))), "led by who was not in sync")
    cluster.produce(name, [f"again {number}" for number in range(70)], 1)
    cluster.start(first)
    until(lambda: cluster.in_sync(name, both), "in sync again")
    kept = [str(number) for number in range(100)] + [f"again {number}" for number in range(70)]
    assert cluster.read(name, 1, len(kept)) == kept
    until(lambda: cluster.differing(name) == [], "equal byte for byte")


def _leader(cluster: Mixed, asked: int, name: str) -> int | None:
    """The leader of a partition, by the asked broker."""
    known = cluster.topic(asked, name)
    return known[0][0] if known else None


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_each_broker_is_killed_and_no_record_or_deletion_is_lost(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
) -> None:
    """A deletion of a topic, requested while one of them is down, is not lost either."""
    settings = {
        "zookeeper.session.timeout.ms": "10000",
        "replica.lag.time.max.ms": "10000",
        "min.insync.replicas": "2",
    }
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=settings) as cluster:
        with cluster.client(1) as client:
            create_topic(client, "t", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
            create_topic(client, "gone", assignment=[[1, 2, 3], [2, 3, 1]])
        with cluster.loaded("t", 3) as acknowledged:
            for victim in (1, 2, 3):
                _outlives(cluster, victim, acknowledged)
        until(lambda: cluster.in_sync("t", ALL), "in sync")
        cluster.all_say("gone", None)
        # Each is there, and once: idempotent, the producer has sent some of them twice.
        assert sorted(cluster.read("t", 3, len(acknowledged))) == sorted(acknowledged)
        until(lambda: cluster.differing("t") == [], "equal byte for byte")
        # Apache Kafka keeps what is deleted for a minute, under another name.
        until(lambda: not [*tmp_path.glob("*/data/gone-?")], "gone everywhere")


def _outlives(cluster: Mixed, victim: int, acknowledged: list[str]) -> None:
    """A broker is killed and restarts; the others continue meanwhile."""
    until(lambda: cluster.in_sync("t", ALL), "in sync")
    cluster.kill(victim)
    until(lambda: cluster.in_sync("t", ALL - {victim}), "led by the others")
    before = len(acknowledged)
    until(lambda: len(acknowledged) > before + 100, "acknowledged by the others")
    if victim == 1:
        with cluster.client(2) as client:
            delete_topic(client, "gone")
    cluster.start(victim)
