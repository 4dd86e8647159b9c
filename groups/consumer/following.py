"""How a consumer group follows its records."""

from __future__ import annotations

from typing import assert_never

from kwire.groups.assigning import follow_target
from kwire.groups.consumer.group import ConsumerGroup, ResolvedPattern
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import (
    CurrentAssignment,
    Epoch,
    MemberMetadata,
    PartitionMetadata,
    RegularExpression,
    TargetAssignment,
    TargetEpoch,
)

ConsumerGroupRecord = (
    Epoch
    | PartitionMetadata
    | MemberMetadata
    | TargetEpoch
    | TargetAssignment
    | CurrentAssignment
    | RegularExpression
)

NO_TARGET_EPOCH = -1


def follow(group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
    """Change the group as the record says; that of its end is for whoever holds the group."""
    match record:
        case Epoch(value=value):
            if value is not None:
                group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case PartitionMetadata():
            group.has_partition_metadata = record.value is not None
        case MemberMetadata():
            _follow_metadata(group, record)
        case TargetEpoch(value=value):
            group.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
            group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
        case TargetAssignment():
            follow_target(group.target, record.key.member_id, record.value)
        case CurrentAssignment():
            _follow_assignment(group, record)
        case RegularExpression():
            _follow_pattern(group, record)
        case _:
            assert_never(record)


def _follow_metadata(group: ConsumerGroup, record: MemberMetadata) -> None:
    member_id = record.key.member_id
    if record.value is None:
        group.remove(member_id)
    else:
        member = group.members.get(member_id) or ConsumerMember(member_id)
        group.put(member.with_metadata(record.value))


def _follow_assignment(group: ConsumerGroup, record: CurrentAssignment) -> None:
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
