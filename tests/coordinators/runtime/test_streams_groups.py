"""Streams groups on a running broker: internal topics that are created, or cannot be.

conformance/wire/cases/streams_*.py compares the responses with Apache Kafka 4.3.1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codecs.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
)
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.conformance.wire.broker import TRANSIENT
from kwire.conformance.wire.cases.streams_group import (
    copying,
    counting,
    heartbeat,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import SETUP, Stage
from kwire.testing import BrokerProcess, SharedClusterProcess
from tests.clients.librdkafka import create_topic
from tests.streams_stage import WAIT_S, stage_on

TOPIC_RESOURCE = 2
AT_ONCE = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


@pytest.fixture
def stage(shared_broker: BrokerProcess, unique: str) -> Iterator[Stage]:
    made = stage_on(shared_broker.bootstrap, unique)
    yield made
    made.finish()


def described(stage: Stage, group: str) -> DescribedGroup:
    answer: DescribedGroup = stage.ask(StreamsGroupDescribeRequest([group])).groups[0]
    return answer


def test_coordinator_creates_the_internal_topics_of_a_topology(stage: Stage) -> None:
    topic, group = stage.topic(partitions=3), new_group(stage)
    join_until_assigned(stage, join(group, "m", counting(stage, topic)))
    changelog = DescribeConfigsResource(TOPIC_RESOURCE, stage.name("changelog"), ["cleanup.policy"])
    answer = stage.ask(DescribeConfigsRequest([changelog]))
    assert answer.results[0].configs[0].value == "compact"
    topology = described(stage, group).topology
    assert topology is not None
    assert topology.subtopologies is not None
    kept = topology.subtopologies[1]
    assert [
        t.partitions for t in (*kept.state_changelog_topics, *kept.repartition_source_topics)
    ] == [3, 3]


def test_heartbeat_reports_why_an_internal_topic_was_not_created(stage: Stage) -> None:
    topic, group = stage.topic(), new_group(stage)
    topology = counting(stage, topic)
    topology.subtopologies[1].state_changelog_topics[0].replication_factor = 9
    told: StreamsGroupHeartbeatResponse = stage.ask(join(group, "m", topology))
    until = time.monotonic() + WAIT_S
    while "Creation failed" not in (told.status or [])[0].status_detail:
        assert time.monotonic() < until
        told = stage.ask(heartbeat(group, "m", told.member_epoch))
    assert "replication factor" in (told.status or [])[0].status_detail.lower()


def test_streams_group_continues_after_a_restart(broker: BrokerProcess, unique: str) -> None:
    before = stage_on(broker.bootstrap, unique)
    topic, group = before.topic(partitions=2), new_group(before)
    epoch = join_until_assigned(before, join(group, "m", copying(topic)))
    was = described(before, group)
    before.close_connection(SETUP)
    broker.kill()
    broker.start()
    after = stage_on(broker.bootstrap, unique)
    request = heartbeat(group, "m", epoch, ("0", [0, 1]))
    until = time.monotonic() + WAIT_S
    while (told := after.ask(request)).error_code in TRANSIENT:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert (told.error_code, told.member_epoch) == (ErrorCode.NONE, epoch)
    assert described(after, group) == was
    after.close_connection(SETUP)


@pytest.mark.slow
def test_internal_topics_are_created_by_any_coordinator_of_a_cluster(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 2, AT_ONCE) as brokers:
        create_topic(brokers.bootstrap, "words", 2)
        coordinators = set()
        for number in range(6):
            coordinators.add(coordinator_of(f"app-{number}", brokers.bootstrap.split(",")))
    assert len(coordinators) == 2, "each has coordinated a group, and one of them controls"


def coordinator_of(group: str, addresses: list[str]) -> str:
    """Where a group's member was given the tasks of topics that were made for it."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        for address in addresses:
            stage = stage_on(address, group)
            request = join(group, "m", counting(stage, "words"))
            mine = stage.ask(request).error_code not in {*TRANSIENT, ErrorCode.NOT_COORDINATOR}
            if mine:
                join_until_assigned(stage, request)
            stage.close_connection(SETUP)
            if mine:
                return address
        time.sleep(0.05)
    raise AssertionError("nobody coordinates the group")
