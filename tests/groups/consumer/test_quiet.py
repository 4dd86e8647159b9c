"""Quiet heartbeats: nearly all heartbeats change nothing, and take a fast path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import ClassicMemberMetadata
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.member import MemberState
from kwire.groups.consumer.heartbeat import ConsumerHeartbeat
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.surroundings import ConsumerSettings
from tests.groups.consumer.simulation import GROUP_ID, ConsumerSimulation, Waiting

CALLER = HeartbeatCaller("c", "/h")


class Considered(Exception):
    """The heartbeat was looked at closely."""


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ConsumerSimulation:
    """A group of one member, in which nothing is left to be done."""
    simulation = ConsumerSimulation(settings=ConsumerSettings(assignment_interval_ms=0))
    simulation.put_topic("t", 2)
    beat(simulation, 0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[])
    monkeypatch.setattr(ConsumerHeartbeat, "_decide_in_full", refused)
    return simulation


def refused(_: ConsumerHeartbeat, __: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
    raise Considered


def beat(
    simulation: ConsumerSimulation,
    epoch: int = 2,
    caller: HeartbeatCaller = CALLER,
    **said: Any,  # noqa: ANN401 - fields of many types
) -> ConsumerGroupHeartbeatResponse:
    ticket: Waiting[ConsumerGroupHeartbeatResponse] = Waiting()
    request = ConsumerGroupHeartbeatRequest(GROUP_ID, "m", epoch, **said)
    heartbeat = simulation.machine.consumer.heartbeat
    simulation.carry_out(heartbeat(request, caller, ticket, simulation.now_ms))
    assert ticket.response is not None
    return ticket.response


def test_quiet_heartbeat_gets_no_assignment(simulation: ConsumerSimulation) -> None:
    told = beat(simulation)
    assert (told.member_id, told.member_epoch, told.assignment) == ("m", 2, None)


@pytest.mark.parametrize(
    "said",
    [
        {"epoch": 0},
        {"topic_partitions": []},
        {"subscribed_topic_names": ["t"]},
        {"subscribed_topic_regex": ""},
        {"rebalance_timeout_ms": 1},
        {"server_assignor": "uniform"},
        {"rack_id": "r"},
        {"caller": HeartbeatCaller("other", "/h")},
        {"caller": HeartbeatCaller("c", "/other")},
    ],
    ids="-".join,
)
def test_heartbeat_with_any_field_is_decided_in_full(
    simulation: ConsumerSimulation, said: dict[str, Any]
) -> None:
    with pytest.raises(Considered):
        beat(simulation, **said)


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": 3},
        {"target_epoch": 3},
        {"epoch": 3, "target_epoch": 3},
        {"metadata_hash": 1},
        {"pattern_members": {"x": 1}},
    ],
    ids="-".join,
)
def test_heartbeat_after_any_change_of_the_group_is_decided_in_full(
    simulation: ConsumerSimulation, changed: dict[str, Any]
) -> None:
    for name, value in changed.items():
        setattr(simulation.group, name, value)
    with pytest.raises(Considered):
        beat(simulation)


@pytest.mark.parametrize(
    "changed",
    [
        {"state": MemberState.UNRELEASED},
        {"classic": ClassicMemberMetadata(1, [])},
    ],
    ids="-".join,
)
def test_heartbeat_of_an_unreconciled_member_is_decided_in_full(
    simulation: ConsumerSimulation, changed: dict[str, Any]
) -> None:
    group = simulation.group
    assert group is not None
    group.members["m"] = replace(group.members["m"], **changed)
    with pytest.raises(Considered):
        beat(simulation)


def test_quiet_heartbeat_restarts_the_session(simulation: ConsumerSimulation) -> None:
    simulation.wait(44_000)
    beat(simulation)
    simulation.wait(44_999)
    assert beat(simulation).member_epoch == 2
    simulation.wait(45_000)
    assert simulation.group is not None
    assert not simulation.group.members
