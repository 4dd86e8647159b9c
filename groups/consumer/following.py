"""Applies the records of a consumer group to the group."""

from __future__ import annotations

from typing import assert_never

from kwire.groups.assigning import follow_target
from kwire.groups.consumer.group import ConsumerGroup, ResolvedPattern
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import (
    ConsumerCurrentAssignment,
    ConsumerGroupEpoch,
    ConsumerMemberMetadata,
    ConsumerTargetAssignment,
    ConsumerTargetEpoch,
    PartitionMetadata,
    RegularExpression,
)

ConsumerGroupRecord = (
    ConsumerGroupEpoch
    | PartitionMetadata
    | ConsumerMemberMetadata
    | ConsumerTargetEpoch
    | ConsumerTargetAssignment
    | ConsumerCurrentAssignment
    | RegularExpression
)

NO_TARGET_EPOCH = -1


def follow(group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
    """Apply one record.  The caller handles the tombstone that deletes the group."""
    match record:
        case ConsumerGroupEpoch(value=value):
            if value is not None:
                group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case PartitionMetadata():
            group.has_partition_metadata = record.value is not None
        case ConsumerMemberMetadata():
            _follow_metadata(group, record)
        case ConsumerTargetEpoch(value=value):
            group.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
            group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
        case ConsumerTargetAssignment():
            follow_target(group.target, record.key.member_id, record.value)
        case ConsumerCurrentAssignment():
            _follow_assignment(group, record)
        case RegularExpression():
            _follow_pattern(group, record)
        case _:
            assert_never(record)


def _follow_metadata(group: ConsumerGroup, record: ConsumerMemberMetadata) -> None:
    member_id = record.key.member_id
    if record.value is None:
        group.remove(member_id)
    else:
        member = group.members.get(member_id) or ConsumerMember(member_id)
        group.put(member.with_metadata(record.value))


def _follow_assignment(group: ConsumerGroup, record: ConsumerCurrentAssignment) -> None:
    member_id = record.key.member_id
    member = group.members.get(member_id)
    if record.value is not None:
        group.put((member or ConsumerMember(member_id)).with_assignment(record.value))
    elif member is not None:
        group.put(member.without_assignment())


def _follow_pattern(group: ConsumerGroup, record: RegularExpression) -> None:
    resolved, value = None, record.value
    if value is not None:
        resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
    group.put_pattern(record.key.regular_expression, resolved)
