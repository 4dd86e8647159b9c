"""Downgrade: turns a consumer group into a classic group when only classic members are left.

The classic group is stable; its generation is the consumer group's epoch, and its assignments are
the target assignment.  A rebalance follows, because no member has the partitions of the members
that left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kwire.cluster.metadata.image import ClusterImage
from kwire.groups.classic.decision import ClassicDecision
from kwire.groups.classic.group import ClassicGroup, ClassicMember
from kwire.groups.classic.rebalance import prepare
from kwire.groups.classic.state import ClassicState
from kwire.groups.consumer import embedded
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.timers import PatternTimer
from kwire.groups.limits import MigrationPolicy


def is_due(decision: ConsumerDecision, left: Collection[ConsumerMember]) -> bool:
    """Whether only classic members are left, and settings allow the downgrade."""
    if not left or any(member.classic is None for member in left):
        return False
    limits = decision.limits
    why = None
    if MigrationPolicy.DOWNGRADE not in limits.group_consumer_migration_policy:
        why = "group.consumer.migration.policy has no downgrade"
    elif len(left) > limits.group_max_size:
        why = "it is over group.max.size"
    if why is not None:
        decision.note(f"its members all speak the classic protocol, but {why}")
    return why is None


def to_classic(
    decision: ConsumerDecision, left: Collection[ConsumerMember], rebalance: str | None
) -> None:
    """Add the record of the classic group with the members `left`.

    The caller has added the records that delete the consumer group.  `rebalance` is the reason for
    a rebalance, or None if nothing has changed for the members.
    """
    group, image = decision.group, decision.surroundings.image
    classic = _classic_group(group, left, image, decision.now_ms)
    decision.append(
        classic.to_record({m.member_id: m.assignment for m in classic.members.values()})
    )
    for member_id in group.members:
        decision.cancel_timers(member_id)
    decision.cancel_timer(PatternTimer(group.group_id, None).key)
    step = ClassicDecision(classic, decision.limits, decision.now_ms)
    step.note(f"back to the classic protocol, with {len(left)} members")
    for member in classic.members.values():
        step.expect_heartbeat(member)
    if rebalance is not None:
        prepare(step, rebalance)
    decision.effects.timers += step.effects.timers
    decision.effects.notes += step.effects.notes
    decision.effects.soft = step.effects.soft


def _classic_group(
    group: ConsumerGroup, members: Collection[ConsumerMember], image: ClusterImage, now_ms: int
) -> ClassicGroup:
    """Return a stable classic group with `members`, whose assignments are their targets."""
    classic = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE,
        previous_state=ClassicState.COMPLETING_REBALANCE,
        state_timestamp_ms=now_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation_id=group.epoch,
    )
    for member in members:
        classic.add(_classic_member(member))
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.subscribed_topics_now()
    for classic_member in list(classic.members.values()):
        version = embedded.version_of(classic_member.metadata(classic.protocol_name))
        target = group.static_target_of(classic_member.member_id, classic_member.group_instance_id)
        assignment = embedded.encoded_assignment(target, image, version)
        classic.members[classic_member.member_id] = replace(classic_member, assignment=assignment)
    return classic


def _classic_member(member: ConsumerMember) -> ClassicMember:
    """Return a member as a member of a classic group, without its assignment."""
    assert member.classic is not None, "only members of the classic protocol are left"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple((p.name, p.metadata) for p in member.classic.supported_protocols),
    )
