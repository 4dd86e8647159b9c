"""Tests kafka-streams-groups of Apache Kafka 4.3.1 on a group whose member is simulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest

from kwire.conformance.wire.cases.build import batch, commit, fill
from kwire.conformance.wire.cases.streams_group import (
    counting,
    heartbeat,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage
from tests.streams_stage import stage_on

pytestmark = [pytest.mark.java, pytest.mark.slow]

GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
JavaClass = Callable[..., CompletedProcess[str]]
Tool = Callable[..., str]


@pytest.fixture
def stage(bootstrap: str, unique: str) -> Iterator[Stage]:
    made = stage_on(bootstrap, unique)
    yield made
    made.finish()


@pytest.fixture
def tool(bootstrap: str, java_class: JavaClass) -> Tool:
    """Runs the tool and returns its output; the tool must succeed without warnings."""

    def run(*arguments: object) -> str:
        done = java_class(GROUPS, ["--bootstrap-server", bootstrap, *map(str, arguments)])
        assert done.returncode == 0, done.stdout + done.stderr
        assert " ERROR " not in done.stderr, done.stderr
        return done.stdout

    return run


def row(text: str, *words: object) -> str:
    """The only line with all these words in this order."""
    pattern = r"\s+".join(re.escape(str(word)) for word in words)
    (found,) = [line for line in text.splitlines() if re.search(pattern, line)]
    return found


def test_streams_group_is_listed_described_reset_and_deleted(stage: Stage, tool: Tool) -> None:
    topic, group = stage.topic(partitions=2), new_group(stage)
    fill(stage, topic, batch(stage, b"one"), batch(stage, b"two"))
    epoch = join_until_assigned(stage, join(group, "member", counting(stage, topic)))
    for partition in (0, 1):
        stage.ask(
            commit(group, topic, 1, partition=partition, member_id="member", generation=epoch)
        )

    def told(*arguments: object) -> str:
        """Run the tool after a heartbeat of the member, since tools take long."""
        stage.ask(heartbeat(group, "member", epoch))
        return tool(*arguments)

    assert re.search(rf"{group}\s+Stable", told("--list", "--state"))
    offsets = told("--describe", "--group", group, "--verbose")
    row(offsets, group, topic.name, 0, 1, "-", 2, 1)
    row(offsets, group, stage.name("repartition"), 1, "-", "-", 0)
    row(told("--describe", "--group", group, "--state"), "Stable", 1)
    members = told("--describe", "--group", group, "--members", "--verbose")
    row(members, group, epoch, 0, "member", "streams", epoch, "process-of-member")
    assert "ACTIVE: 0:[0,1]; 1:[0,1]; TARGET-ACTIVE: 0:[0,1]; 1:[0,1]; " in members
    stage.ask(heartbeat(group, "member", -1))
    chosen = ("--group", group, "--input-topic", topic.name)
    row(tool("--reset-offsets", *chosen, "--to-latest", "--execute"), group, topic.name, 0, 2)
    assert group in tool("--delete", "--group", group)
    assert group not in tool("--list")
