"""Removes members from a consumer group, and the records that delete the group."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.consumer import downgrade
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import ROLES, PartitionMetadata, RegularExpression


def remove(decision: ConsumerDecision, gone: Collection[ConsumerMember]) -> None:
    """Remove members; the next epoch assigns their partitions to others.

    If only members of the classic protocol are left, the group becomes a classic group.
    """
    group = decision.group
    ids = {member.member_id for member in gone}
    left = [member for member in group.members.values() if member.member_id not in ids]
    if downgrade.is_due(decision, left):
        decision.append(*tombstones(group))
        downgrade.to_classic(decision, left, "members of the consumer protocol are gone")
        return
    for member in gone:
        decision.forget_member(member.member_id)
    without = _forget_patterns(decision, gone, left)
    epoch = decision.next_epoch(decision.metadata_hash(group.topic_names_of(left, without)))
    if not left:
        decision.note_empty(epoch)


def _forget_patterns(
    decision: ConsumerDecision, gone: Iterable[ConsumerMember], left: Iterable[ConsumerMember]
) -> set[str]:
    """Delete the patterns that only the removed members had.  Returns them."""
    patterns = {member.pattern for member in gone if member.pattern}
    patterns -= {member.pattern for member in left}
    without = {pattern for pattern in patterns if pattern is not None}
    for pattern in sorted(without):
        decision.append(RegularExpression.tombstone(decision.group_id, pattern))
    return without


def tombstones(group: ConsumerGroup, renamed: tuple[str, str] | None = None) -> list[MachineRecord]:
    """The records that delete a group and all of its members.

    `renamed`: (old id, new id) of a static member that earlier records of the same decision
    replace.
    """
    group_id = group.group_id
    old, new = renamed or ("", "")
    ids = [new if member_id == old else member_id for member_id in group.members]
    return [
        *(ROLES.current.tombstone(group_id, member_id) for member_id in ids),
        *(ROLES.target.tombstone(group_id, member_id) for member_id in ids),
        ROLES.target_epoch.tombstone(group_id),
        *(ROLES.metadata.tombstone(group_id, member_id) for member_id in ids),
        *(RegularExpression.tombstone(group_id, pattern) for pattern in group.patterns),
        PartitionMetadata.tombstone(group_id),
        ROLES.epoch.tombstone(group_id),
    ]
