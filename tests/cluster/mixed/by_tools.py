"""The life of topics by Apache Kafka's tools, in a cluster of three brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cluster.mixed.watched import WatchedCluster
from tests.waiting import until

ALL = frozenset((1, 2, 3))
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

Tool = Callable[..., str]
"""Runs a tool of Apache Kafka and returns its standard output: tool(class name, *arguments)."""

MOVED = 5000
"""Number of records of 1 kB: a follower throttled to 1 kB/s fetches up to 1 MB at once."""


def cancel_reassignment(cluster: WatchedCluster, tool: Tool, name: str, directory: Path) -> None:
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


def live_by_tools(cluster: WatchedCluster, tool: Tool, name: str, directory: Path) -> None:
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
    verify = ["--reassignment-json-file", _plan(directory, plan), "--verify"]
    until(lambda: tool(REASSIGNMENT, *verify).count("is completed") == 2, "completed")
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


def _first_two(cluster: WatchedCluster, name: str) -> list[tuple[int, ...]]:
    """The replicas of the first two partitions; none while brokers report different ones."""
    replicas = [
        [each[1] for each in cluster.topic(number, name) or ()][:2] for number in cluster.up
    ]
    return replicas[0] if all(each == replicas[0] for each in replicas) else []


def elect_uncleanly(
    cluster: WatchedCluster, tool: Tool, name: str, asked: int, first: int, second: int
) -> None:
    """A replica that is not in sync leads after an administrator's request; the other truncates.

    `asked` is a third broker, which stays up.
    """
    tool(TOPICS, "--create", "--topic", name, "--replica-assignment", f"{first}:{second}")
    both = frozenset((first, second))
    until(lambda: cluster.in_sync(name, both), "in sync")
    cluster.produce(name, [str(number) for number in range(100)], 1)
    cluster.kill(second)
    until(lambda: cluster.in_sync(name, frozenset((first,))), "without the other")
    cluster.produce(name, [f"alone {number}" for number in range(50)], 1)
    cluster.kill(first)
    cluster.start(second)
    until(lambda: leader_by(cluster, asked, name) == -1, "without a leader")
    until(lambda: second in cluster.members(asked), f"{second} there again")
    place = ["--topic", name, "--partition", "0"]
    tool(ELECTION, "--election-type", "UNCLEAN", *place)
    until(lambda: cluster.in_sync(name, frozenset((second,))), "led by who was not in sync")
    cluster.produce(name, [f"again {number}" for number in range(70)], 1)
    cluster.start(first)
    until(lambda: cluster.in_sync(name, both), "in sync again")
    kept = [str(number) for number in range(100)] + [f"again {number}" for number in range(70)]
    assert cluster.read(name, 1, len(kept)) == kept
    until(lambda: cluster.differing(name) == [], "equal byte for byte")


def leader_by(cluster: WatchedCluster, asked: int, name: str) -> int | None:
    """The leader of a partition, by the asked broker."""
    known = cluster.topic(asked, name)
    return known[0][0] if known else None
