"""The records of a streams group, as Apache Kafka 4.3.1 wrote them: a key and a value a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.messages.coordinator.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    TaskIds as TargetTaskIds,
)
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.following import follow
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.record_format import VERSION
from kwire.groups.records import STREAMS_GROUP, decode
from kwire.groups.streams import target
from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.records import (
    RECORDS,
    StreamsCurrentAssignment,
    StreamsMemberMetadata,
    StreamsTargetAssignment,
    TopologyRecord,
)
from kwire.groups.streams.tasks import TaskSets

LINES = (Path(__file__).parent / "data" / "records-4.3.1.txt").read_text().splitlines()
BY_TYPE = {record.TYPE: record for record in RECORDS}


@pytest.mark.parametrize("line", LINES)
def test_streams_records_of_apache_kafka_encode_to_the_same_bytes(line: str) -> None:
    key, value = map(bytes.fromhex, line.split())
    record = decode(key, value)
    assert isinstance(record, BY_TYPE[VERSION.unpack_from(key)[0]])
    assert record.encode() == (key, value)
    deleted = decode(key, None)
    assert deleted is not None
    assert deleted.encode() == (key, None)


@pytest.mark.parametrize("line", LINES)
def test_group_writes_the_records_that_it_read(line: str) -> None:
    record = decode(*map(bytes.fromhex, line.split()))
    again: MachineRecord
    match record:
        case StreamsMemberMetadata(key=key):
            group = following(key.group_id, record)
            again = group.members[key.member_id].to_metadata(key.group_id)
        case StreamsCurrentAssignment(key=key):
            group = following(key.group_id, record)
            again = group.members[key.member_id].to_assignment(key.group_id)
        case StreamsTargetAssignment(key=key):
            group = following(key.group_id, record)
            again = recorded_target(key.group_id, key.member_id, group.target[key.member_id])
        case TopologyRecord(key=key):
            topology = following(key.group_id, record).topology
            assert topology is not None
            again = topology.to_record(key.group_id)
        case _:
            return  # numbers, which the group has as they are
    assert again.encode() == record.encode()


def test_warm_up_tasks_in_records_are_applied() -> None:
    tasks = [[TaskIds(name, [place])] for place, name in enumerate("abcdef")]
    value = StreamsGroupCurrentMemberAssignmentValue(4, 3, 2, *tasks)
    for each in (*value.active_tasks, *value.active_tasks_pending_revocation):
        each.assignment_epochs = [1]
    key = StreamsGroupCurrentMemberAssignmentKey("g", "m")
    member = following("g", StreamsCurrentAssignment(key, value)).members["m"]
    assert member.assigned.warmup == {"c": frozenset({2})}
    assert member.revoking.warmup == {"f": frozenset({5})}
    assert member.to_assignment("g") == StreamsCurrentAssignment(key, value)
    planned = [[TargetTaskIds(name, [place])] for place, name in enumerate("abc")]
    goal = StreamsTargetAssignment(
        StreamsGroupTargetAssignmentMemberKey("g", "m"),
        StreamsGroupTargetAssignmentMemberValue(*planned),
    )
    held = following("g", goal).target["m"]
    assert held.warmup == {"c": frozenset({2})}
    assert recorded_target("g", "m", held) == goal


def recorded_target(group_id: str, member_id: str, tasks: TaskSets) -> StreamsTargetAssignment:
    return StreamsTargetAssignment.of(group_id, member_id, value=target.value(tasks))


def following(
    group_id: str,
    record: StreamsMemberMetadata
    | StreamsCurrentAssignment
    | StreamsTargetAssignment
    | TopologyRecord,
) -> StreamsGroup:
    group = StreamsGroup(group_id)
    follow(group, record)
    return group


def test_recorded_lines_cover_each_streams_record_type() -> None:
    assert {VERSION.unpack_from(bytes.fromhex(line))[0] for line in LINES} == BY_TYPE.keys()
    assert BY_TYPE.keys() == STREAMS_GROUP


def test_streams_group_of_apache_kafka_continues() -> None:
    machine = GroupMachine(GroupLimits())
    for line in LINES:
        record = decode(*map(bytes.fromhex, line.split()))
        assert record is not None
        machine.apply(record)
    (group,) = machine.groups.values()
    assert isinstance(group, StreamsGroup)
    assert {name: member.assigned.active for name, member in group.members.items()} == {
        "first": {"0": {0: 3}, "1": {0: 3}},
        "second": {"0": {1: 4}, "1": {1: 4}},
    }
    assert group.members["second"].assigned.standby == {"1": frozenset({0})}
    assert group.assignment_configs == {"num.standby.replicas": "1"}
