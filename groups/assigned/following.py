"""Applies the records of an assigned group."""

from __future__ import annotations

from typing import Any

from kwire.groups.assigned.group import AssignedGroup
from kwire.groups.assigned.records import (
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    TargetAssignment,
    TargetEpoch,
)
from kwire.groups.record_format import KeyedRecord

NO_TARGET_EPOCH = -1


def follow(group: AssignedGroup[Any, Any], record: KeyedRecord[Any, Any]) -> None:
    """Apply one record.  The caller handles the tombstone that deletes the group."""
    match record:
        case GroupEpoch():
            if record.value is not None:
                group.follow_epoch(record.value)
        case MemberMetadata():
            _follow_metadata(group, record)
        case TargetEpoch(value=value):
            group.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
            group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
        case TargetAssignment(key=key, value=value):
            if value is None:
                group.target.pop(key.member_id, None)
            else:
                group.target[key.member_id] = group.read_target(value)
        case CurrentAssignment():
            _follow_assignment(group, record)
        case _:
            group.follow_own(record)


def _follow_metadata(group: AssignedGroup[Any, Any], record: MemberMetadata[Any, Any]) -> None:
    """Set the metadata of a member, which the first record creates; a tombstone removes it."""
    member_id = record.key.member_id
    if record.value is None:
        group.remove(member_id)
    else:
        member = group.members.get(member_id) or group.member_class(member_id)
        group.put(member.with_metadata(record.value))


def _follow_assignment(group: AssignedGroup[Any, Any], record: CurrentAssignment[Any, Any]) -> None:
    """Set the current assignment of a member; a tombstone resets it.

    A tombstone of a member that does not exist is ignored: compaction may have removed the records
    before it.
    """
    member_id = record.key.member_id
    member = group.members.get(member_id)
    if record.value is not None:
        group.put((member or group.member_class(member_id)).with_assignment(record.value))
    elif member is not None:
        group.put(member.without_assignment())
