"""To the consumer protocol: a classic group that a member of the other kind joins.

Its members stay, each with what its leader gave it last, and are answered by the consumer group
from now on; those who wait for a generation are told to join anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from kwire.codecs.primitives import DecodeError
from kwire.groups.classic.decision import join_error, sync_error
from kwire.groups.classic.group import ClassicGroup, Member
from kwire.groups.classic.records import group_tombstone
from kwire.groups.classic.timers import JoinTimer, SyncTimer
from kwire.groups.consumer import embedded, target
from kwire.groups.consumer.decision import Decision, Refusal, epoch_record
from kwire.groups.consumer.following import ConsumerGroupRecord, follow
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.limits import MigrationPolicy

NO_TIME = 0
"""When the target was computed: not by an assignor of this broker's, so the next is not put off."""


class _Impossible(Exception):
    """Why its members cannot be those of a consumer group."""


def upgrade(decision: Decision, classic: ClassicGroup) -> Refusal | None:
    """Make the decision's group, a new one, of `classic`, which it takes the place of."""
    if classic.check_delete() is ErrorCode.NONE:  # nobody is in it: whatever it was
        _end(decision, classic)
        return None
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
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    decision.note(f"to the consumer protocol, with {len(members)} members")
    _end(decision, classic)
    _begin(decision, classic.generation_id, members)
    return None


def _why_not(decision: Decision, classic: ClassicGroup) -> str | None:
    limits = decision.limits
    if MigrationPolicy.UPGRADE not in limits.group_consumer_migration_policy:
        return "online upgrade is disabled"
    if not classic.uses_consumer_protocol:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > limits.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _members(classic: ClassicGroup, image: ClusterImage) -> list[ConsumerMember]:
    """Before the first generation no protocol is chosen yet."""
    members = classic.members.values()
    protocol = classic.protocol_name
    if protocol is None and members:
        protocol = classic.select_protocol()
    try:
        return [_member(classic.generation_id, member, protocol, image) for member in members]
    except DecodeError:
        raise _Impossible("the embedded consumer protocol is malformed") from None


def _member(
    epoch: int, member: Member, protocol: str | None, image: ClusterImage
) -> ConsumerMember:
    said = embedded.subscription(member.metadata(protocol))
    return ConsumerMember(
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(said.topics),
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


def _assigned(member: Member, image: ClusterImage) -> dict[bytes, list[int]]:
    if not member.assignment:
        return {}
    told = embedded.assignment(member.assignment)
    if told.user_data:
        raise _Impossible(
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade"
        )
    return embedded.assigned(told, image)


def _end(decision: Decision, classic: ClassicGroup) -> None:
    """Of the classic group: who waits is told so, and nothing else is waited for."""
    for member_id, ticket in classic.awaiting_join.items():
        decision.reply(ticket, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    for ticket in classic.awaiting_sync.values():
        decision.reply(ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    decision.cancel_timer(JoinTimer(classic.group_id).key)
    decision.cancel_timer(SyncTimer(classic.group_id, classic.generation_id).key)
    for member_id in classic.pending_joins:
        decision.end_session(member_id)
    decision.append(group_tombstone(classic.group_id))


def _begin(decision: Decision, epoch: int, members: Iterable[ConsumerMember]) -> None:
    """The records of the consumer group, which the decision's group follows at once."""
    group, group_id = decision.group, decision.group_id
    names = frozenset[str]().union(*(member.topic_names for member in members))
    targets = {member.member_id: _target(member) for member in members}
    records: list[ConsumerGroupRecord] = [
        *(member.to_metadata(group_id) for member in members),
        epoch_record(group_id, epoch, decision.metadata_hash(names)),
        *(target.record(group_id, member_id, what) for member_id, what in targets.items()),
        target.epoch_record(group_id, epoch, NO_TIME),
        *(member.to_assignment(group_id) for member in members),
    ]
    for record in records:
        follow(group, record)
    decision.append(*records)
    for member in members:
        decision.expect_heartbeat(member)


def _target(member: ConsumerMember) -> dict[bytes, tuple[int, ...]]:
    return {topic_id: tuple(partitions) for topic_id, partitions in member.assigned.items()}
