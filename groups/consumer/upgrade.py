"""Upgrade: turns a classic group into a consumer group when a consumer-protocol member joins.

The members stay, each with the partitions that the leader assigned last.  From now on the consumer
group handles their requests.  Members that wait for a generation get an error that makes them
rejoin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from kwire.codecs.primitives import DecodeError
from kwire.groups.assigned.following import follow
from kwire.groups.classic.decision import join_error, sync_error
from kwire.groups.classic.group import ClassicGroup, ClassicMember
from kwire.groups.classic.records import group_tombstone
from kwire.groups.classic.timers import JoinTimer, SyncTimer
from kwire.groups.consumer import embedded
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.limits import MigrationPolicy
from kwire.groups.record_format import KeyedRecord

NO_TIME = 0
"""Time of the target: the classic leader computed it, so the next computation is not delayed."""


class _Impossible(Exception):
    """The members cannot be members of a consumer group; the message says why."""


def upgrade(decision: ConsumerDecision, classic: ClassicGroup) -> None:
    """Convert `classic` into the decision's group, which is new.  Raises Refusal."""
    if classic.check_delete() is ErrorCode.NONE:  # an empty group can always be replaced
        _end(decision, classic)
        return
    why = _why_not(decision, classic)
    if why is None:
        try:
            members = _members(classic, decision.surroundings.image)
        except _Impossible as problem:
            why = str(problem)
    if why is not None:
        decision.note(f"a member of the consumer protocol is refused: {why}")
        message = (
            f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}."
        )
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    decision.note(f"to the consumer protocol, with {len(members)} members")
    _end(decision, classic)
    _begin(decision, classic.generation_id, members)


def _why_not(decision: ConsumerDecision, classic: ClassicGroup) -> str | None:
    """Return why the classic group cannot be upgraded, None if it can; clients see the text."""
    limits = decision.limits
    if MigrationPolicy.UPGRADE not in limits.group_consumer_migration_policy:
        return "online upgrade is disabled"
    if not classic.uses_consumer_protocol:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > limits.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _members(classic: ClassicGroup, image: ClusterImage) -> list[ConsumerMember]:
    """The members as consumer members.  Raises _Impossible."""
    members = classic.members.values()
    protocol = classic.protocol_name
    if protocol is None and members:
        protocol = classic.select_protocol()
    try:
        return [_member(classic.generation_id, member, protocol, image) for member in members]
    except DecodeError:
        raise _Impossible("the embedded consumer protocol is malformed") from None


def _member(
    epoch: int, member: ClassicMember, protocol: str | None, image: ClusterImage
) -> ConsumerMember:
    """Return a classic member as a consumer member, with the partitions that it has."""
    subscription = embedded.subscription(member.metadata(protocol))
    return ConsumerMember(
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            member.session_timeout_ms,
            [ClassicProtocol(name, metadata) for name, metadata in member.protocols],
        ),
        epoch=epoch,
        previous_epoch=epoch,
        assigned={
            topic_id: dict.fromkeys(sorted(partitions), epoch)
            for topic_id, partitions in _assigned(member, image).items()
        },
    )


def _assigned(member: ClassicMember, image: ClusterImage) -> dict[bytes, list[int]]:
    """Return the member's partitions by topic id.

    Raises _Impossible if a custom assignor has added data of its own, which would be lost.
    """
    if not member.assignment:
        return {}
    assignment = embedded.assignment(member.assignment)
    if assignment.user_data:
        raise _Impossible(
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade"
        )
    return embedded.assigned(assignment, image)


def _end(decision: ConsumerDecision, classic: ClassicGroup) -> None:
    """End the classic group: answer parked requests, cancel timers, add its tombstone."""
    for member_id, ticket in classic.awaiting_join.items():
        decision.reply(ticket, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    for ticket in classic.awaiting_sync.values():
        decision.reply(ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    decision.cancel_timer(JoinTimer(classic.group_id).key)
    decision.cancel_timer(SyncTimer(classic.group_id, classic.generation_id).key)
    for member_id in classic.pending_joins:
        decision.end_session(member_id)
    decision.append(group_tombstone(classic.group_id))


def _begin(decision: ConsumerDecision, epoch: int, members: Iterable[ConsumerMember]) -> None:
    """Add the records of the consumer group, and apply them to the decision's new group."""
    group, group_id = decision.group, decision.group_id
    names = frozenset[str]().union(*(member.topic_names for member in members))
    targets = {member.member_id: _target(member) for member in members}
    records: list[KeyedRecord[Any, Any]] = [
        *(member.to_metadata(group_id) for member in members),
        decision.epoch_record(epoch, decision.metadata_hash(names)),
        *(decision.target_record(*target) for target in targets.items()),
        decision.target_epoch_record(epoch, NO_TIME),
        *(member.to_assignment(group_id) for member in members),
    ]
    for record in records:
        follow(group, record)
    decision.append(*records)
    for member in members:
        decision.expect_heartbeat(member)


def _target(member: ConsumerMember) -> dict[bytes, tuple[int, ...]]:
    return {topic_id: tuple(partitions) for topic_id, partitions in member.assigned.items()}
