"""A streams group moves to Apache Kafka and back, with its members."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
)
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kwire.conformance import topology_keeper
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.wire.cases.streams_group import (
    copying,
    counting,
    heartbeat,
    join,
    join_until_assigned,
)
from kwire.conformance.wire.cases.streams_group_topology_description_update import update
from kwire.conformance.wire.stage import SETUP, Stage
from kwire.testing import BrokerProcess
from tests.clients.waiting import eventually
from tests.conftest import finish
from tests.streams_stage import stage_on

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "group.streams.session.timeout.ms": "60000",
}
PREFIX, GROUP = "app", "app-g"
SAYS_NOTHING = {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None}


def described(stage: Stage, member: str, epoch: int) -> DescribedGroup:
    """Once a member was heard of, so that the broker has looked at the topology's topics."""
    request = heartbeat(GROUP, member, epoch, **SAYS_NOTHING)
    eventually(lambda: stage.ask(request).error_code, ErrorCode.NONE)
    group: DescribedGroup = stage.ask(StreamsGroupDescribeRequest([GROUP])).groups[0]
    group.members.sort(key=lambda each: each.member_id)
    return group


def test_streams_group_moves_from_apache_kafka_to_kwire_and_back(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    root = tmp_path / "apache"
    node = ApacheKafka(root, settings=SETTINGS)
    with node:
        stage = stage_on(node.bootstrap, PREFIX)
        topology = counting(stage, stage.topic(partitions=2))
        epoch = join_until_assigned(stage, join(GROUP, "first", topology))
        stage.ask(join(GROUP, "second", topology))
        by_apache = described(stage, "first", epoch)
        stage.close_connection(SETUP)
    broker = BrokerProcess(tmp_path / "kwire", {"node.id": "1", **SETTINGS})
    broker.settings["log.dirs"] = str(root / "data")
    broker.start()
    try:
        stage = stage_on(broker.bootstrap, PREFIX)
        assert described(stage, "first", epoch) == by_apache
        stage.ask(join(GROUP, "third", topology))
        by_kwire = described(stage, "first", epoch)
        stage.close_connection(SETUP)
    finally:
        finish(broker)
    assert by_kwire.group_epoch == by_apache.group_epoch + 1
    assert [len(each.target_assignment.active_tasks) for each in by_kwire.members] != [0, 0, 0]
    with node:
        stage = stage_on(node.bootstrap, PREFIX)
        again = described(stage, "first", epoch)
        again.topology = by_kwire.topology  # it has no sizes until something is written
        assert again == by_kwire
        stage.close_connection(SETUP)


def answered(stage: Stage, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """The first answer of a coordinator that has loaded the group."""
    answers: list[StreamsGroupHeartbeatResponse] = []

    def ask() -> ErrorCode:
        answers.append(stage.ask(request))
        return ErrorCode(answers[-1].error_code)

    eventually(ask, ErrorCode.NONE)
    return answers[-1]


def asks_for_description(stage: Stage, group: str, epoch: int) -> bool:
    """Whether the first heartbeat at a new coordinator asks for the description."""
    response = answered(stage, heartbeat(group, "m", epoch, **SAYS_NOTHING))
    return response.topology_description_required


def send_description(stage: Stage, group: str, error: ErrorCode) -> int:
    """Join, be asked for the description and send it; returns the member's epoch."""
    response = answered(stage, join(group, "m", copying("gone")))
    assert response.topology_description_required
    assert stage.ask(update(group)).error_code == error
    return response.member_epoch


def test_notes_about_descriptions_are_read_by_the_other_broker(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """Neither asks for what the other has stored or refused; a restart forgets all else."""
    root = tmp_path / "apache"
    given = {**SETTINGS, **topology_keeper.SETTINGS}
    node = ApacheKafka(root, settings=given, plugins=[topology_keeper.jar()])
    failed = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    groups = {"app-stored": ErrorCode.NONE, "app-refuses": failed, "app-fails": failed}
    with node:
        stage = stage_on(node.bootstrap, PREFIX)
        epochs = {group: send_description(stage, group, error) for group, error in groups.items()}
        stage.close_connection(SETUP)
    settings = {"node.id": "1", **SETTINGS, **topology_keeper.OWN_SETTINGS}
    broker = BrokerProcess(tmp_path / "kwire", settings)
    broker.settings["log.dirs"] = str(root / "data")
    broker.start()
    try:
        stage = stage_on(broker.bootstrap, PREFIX)
        asked = {group: asks_for_description(stage, group, epochs[group]) for group in groups}
        assert asked == {"app-stored": False, "app-refuses": False, "app-fails": True}
        others = {group.replace("app", "app-kwire"): error for group, error in groups.items()}
        epochs |= {group: send_description(stage, group, error) for group, error in others.items()}
        stage.close_connection(SETUP)
    finally:
        finish(broker)
    with node:
        stage = stage_on(node.bootstrap, PREFIX)
        asked = {group: asks_for_description(stage, group, epochs[group]) for group in epochs}
        assert asked == {group: "fails" in group for group in epochs}
        stage.close_connection(SETUP)
