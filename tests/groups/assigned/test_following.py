"""Groups apply records in any order, such as tombstones of missing members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.messages.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.following import follow
from kwire.groups.classic.records import GroupMetadata
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.record_format import VERSION
from kwire.groups.records import decode

FOLDER = Path(__file__).parent.parent


def read(key: bytes, value: bytes | None) -> MachineRecord:
    record = decode(key, value)
    assert record is not None
    return record


def records(kind: str) -> list[tuple[bytes, bytes]]:
    """As Apache Kafka wrote them, but those that delete something."""
    lines = (FOLDER / kind / "data" / "records-4.3.1.txt").read_text().splitlines()
    pairs = (tuple(bytes.fromhex(each) for each in line.split()) for line in lines)
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]


OF_MEMBERS = {
    "consumer": {"metadata": 5, "target": 7, "assignment": 8},
    "share": {"metadata": 10, "target": 13, "assignment": 14},
    "streams": {"metadata": 19, "target": 21, "assignment": 22},
}
"""Record types."""


def forget(machine: GroupMachine, kind: str, what: str) -> set[str]:
    """Apply the tombstones, each twice; of which members."""
    ids = set()
    for key, _ in records(kind):
        if VERSION.unpack_from(key)[0] == OF_MEMBERS[kind][what]:
            tombstone: Any = read(key, None)
            ids.add(tombstone.key.member_id)
            for _ in range(2):
                machine.apply(tombstone)
    return ids


@pytest.mark.parametrize("kind", OF_MEMBERS)
def test_second_tombstone_changes_nothing(kind: str) -> None:
    machine = GroupMachine(GroupLimits())
    for key, value in records(kind):
        machine.apply(read(key, value))
    groups: list[Any] = list(machine.groups.values())
    members = {name: member for group in groups for name, member in group.members.items()}
    gone = forget(machine, kind, "assignment")
    assert gone
    for group in groups:
        for member in (group.members[name] for name in gone & group.members.keys()):
            assert (member.epoch, member.previous_epoch) == (-1, -1)
            assert member.assigned == type(member)("m").assigned
    gone = forget(machine, kind, "target")
    assert gone
    assert not any(gone & group.target.keys() for group in groups)
    gone = forget(machine, kind, "metadata")
    assert gone <= members.keys()
    assert not any(gone & group.members.keys() for group in groups)
    forget(machine, kind, "assignment")
    assert not any(gone & group.members.keys() for group in groups)


@pytest.mark.parametrize("kind", OF_MEMBERS)
def test_tombstone_creates_no_group(kind: str) -> None:
    machine = GroupMachine(GroupLimits())
    for key, _ in records(kind):
        machine.apply(read(key, None))
    assert not machine.groups


@pytest.mark.parametrize(("kind", "record_type"), [("consumer", 6), ("share", 12), ("streams", 20)])
def test_target_epoch_is_minus_1_after_its_tombstone(kind: str, record_type: int) -> None:
    machine = GroupMachine(GroupLimits())
    deleted = set()
    for key, value in records(kind):
        machine.apply(read(key, value))
    for key, _ in records(kind):
        if VERSION.unpack_from(key)[0] == record_type:
            tombstone: Any = read(key, None)
            deleted.add(tombstone.key.group_id)
            machine.apply(tombstone)
    groups: list[Any] = [machine.groups[group_id] for group_id in deleted]
    assert groups
    assert all((group.target_epoch, group.target_timestamp_ms) == (-1, 0) for group in groups)


def test_instance_id_belongs_to_the_last_member_that_used_it() -> None:
    group = ConsumerGroup("g")
    first, second = (ConsumerMember(each, instance_id="i") for each in ("first", "second"))
    follow(group, first.to_metadata("g"))
    follow(group, second.to_metadata("g"))
    group.remove("first")
    assert group.static_member("i") == second
    group.remove("second")
    assert (group.static_members, group.members) == ({}, {})


def test_group_records_in_a_transaction_apply_at_once() -> None:
    machine = GroupMachine(GroupLimits())
    machine.apply_pending(GroupMetadata(GroupMetadataKey("g"), GroupMetadataValue("consumer")), 7)
    assert list(machine.groups) == ["g"]
    assert machine.groups["g"].listed().protocol_type == "consumer"
