"""The rebalance of a classic group: from one generation to the next.

prepare      heartbeats get REBALANCE_IN_PROGRESS, so members rejoin; their JoinGroups are parked
complete     all have joined, or the rebalance timeout has passed: the next generation begins.
             JoinGroups are answered, and members must sync within another rebalance timeout
first        the first rebalance of an empty group waits `group.initial.rebalance.delay.ms` for
             more members; each new member extends the delay, at most to the rebalance timeout
"""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.groups.classic.decision import ClassicDecision, join_error, sync_error
from kwire.groups.classic.state import ClassicState
from kwire.groups.classic.timers import InitialJoinTimer, JoinTimer, SyncTimer
from kwire.groups.effects import GroupEffects


def prepare_or_complete(decision: ClassicDecision, reason: str) -> None:
    """Start a rebalance after a change of members, or complete the current one if possible."""
    if decision.group.can_rebalance:
        prepare(decision, reason)
    else:
        complete_if_all_joined(decision)


def prepare(decision: ClassicDecision, reason: str) -> None:
    """Start a rebalance."""
    group = decision.group
    decision.begin_rebalance(reason)
    decision.note(f"generation {group.generation_id} ends, {reason}")
    if group.state is ClassicState.COMPLETING_REBALANCE:
        fail_syncs(decision, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    decision.cancel_timer(SyncTimer(group.group_id, group.generation_id).key)
    first = group.state is ClassicState.EMPTY
    group.transition_to(ClassicState.PREPARING_REBALANCE, decision.now_ms)
    if first:
        delay_ms = decision.limits.group_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        decision.set_timer(InitialJoinTimer(group.group_id, delay_ms, remaining_ms), delay_ms)
    elif group.all_members_joined:
        complete(decision)
    else:
        decision.set_timer(JoinTimer(group.group_id), group.rebalance_timeout_ms)


def complete_if_all_joined(decision: ClassicDecision) -> None:
    """Complete the current rebalance, except a first one, which only its timer completes."""
    group = decision.group
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and not group.in_first_rebalance
        and group.all_members_joined
    ):
        complete(decision)


def complete(decision: ClassicDecision) -> None:
    """Begin the next generation with the members that joined and all static members."""
    group = decision.group
    decision.cancel_timer(JoinTimer(group.group_id).key)
    for member in list(group.members.values()):
        if member.member_id not in group.awaiting_join and not member.is_static:
            decision.note(f"member {member.member_id} did not rejoin in time and is out")
            group.remove(member.member_id)
            decision.end_session(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has joined: wait until one does or is removed.
        decision.set_timer(JoinTimer(group.group_id), group.rebalance_timeout_ms)
        return
    group.start_next_generation(decision.now_ms)
    if not group.members:
        decision.note(f"generation {group.generation_id} is empty")
        decision.effects.records.append(group.to_record({}))
        return
    decision.note(
        f"generation {group.generation_id} begins with {len(group.members)} members, "
        f"protocol {group.protocol_name}, leader {group.leader_id}"
    )
    for member_id, member in group.members.items():
        decision.answer_join(member_id, decision.generation(member_id))
        decision.expect_heartbeat(member)
        group.pending_syncs[member_id] = None
    group.newcomers.clear()
    decision.set_timer(SyncTimer(group.group_id, group.generation_id), group.rebalance_timeout_ms)


def fail_syncs(decision: ClassicDecision, error: ErrorCode) -> None:
    """Clear the assignments, and answer parked SyncGroups with an error."""
    group = decision.group
    for member_id, member in list(group.members.items()):
        group.members[member_id] = replace(member, assignment=b"")
        if decision.answer_sync(member_id, sync_error(error)):
            decision.expect_heartbeat(member)


def assign(decision: ClassicDecision, assignments: dict[str, bytes]) -> None:
    """Make the group stable with the leader's assignment, and answer parked SyncGroups."""
    group = decision.group
    for member_id, member in list(group.members.items()):
        group.members[member_id] = replace(member, assignment=assignments.get(member_id, b""))
        if decision.answer_sync(member_id, decision.assignment(member_id)):
            # A parked member cannot send heartbeats, so its session starts here.
            decision.expect_heartbeat(member)
    group.transition_to(ClassicState.STABLE, decision.now_ms)


def remove_member(decision: ClassicDecision, member_id: str) -> None:
    """Remove a member.  Its parked requests get UNKNOWN_MEMBER_ID, so a live client rejoins."""
    decision.answer_join(member_id, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
    decision.answer_sync(member_id, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    decision.group.remove(member_id)


def keep_when_refused(decision: ClassicDecision) -> GroupEffects:
    """The effects of the decision, which are carried out even if the record cannot be written.

    Its record says that the group has become empty.  If that is lost, a load restores the last
    generation, and its members time out then.
    """
    effects = decision.effects
    if effects.records:
        effects.refused = lambda _: replace(effects, records=[])
    return effects


# -- timers


def initial_join_due(decision: ClassicDecision, timer: InitialJoinTimer) -> GroupEffects:
    """End the wait of the first rebalance, or wait again if a member joined in the meantime.

    Each wait takes at most `group.initial.rebalance.delay.ms`, all of them together at most the
    rebalance timeout.
    """
    group = decision.group
    if group.new_member_added and timer.remaining_ms != 0:
        group.new_member_added = False
        delay_ms = min(decision.limits.group_initial_rebalance_delay_ms, timer.remaining_ms)
        remaining_ms = max(timer.remaining_ms - timer.delay_ms, 0)
        decision.set_timer(InitialJoinTimer(group.group_id, delay_ms, remaining_ms), delay_ms)
        return decision.effects
    return join_due(decision)


def join_due(decision: ClassicDecision) -> GroupEffects:
    """Begin the next generation without the members that did not rejoin in time."""
    if decision.group.state is ClassicState.PREPARING_REBALANCE:
        complete(decision)
    return keep_when_refused(decision)


def sync_due(decision: ClassicDecision, timer: SyncTimer) -> GroupEffects:
    """Remove the members that did not sync in time, and rebalance the others."""
    group = decision.group
    syncing = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if timer.generation_id == group.generation_id and syncing and group.pending_syncs:
        for member_id in list(group.pending_syncs):
            remove_member(decision, member_id)
            decision.end_session(member_id)
        prepare(decision, "members did not sync in time")
    return keep_when_refused(decision)


def session_due(decision: ClassicDecision, member_id: str) -> GroupEffects:
    """Remove a member, or a pending member id, whose session has timed out."""
    group = decision.group
    if member_id in group.pending_joins:
        group.remove(member_id)
        _complete_preparing(decision)
    elif member_id in group.members and not _is_parked(decision, member_id):
        remove_member(decision, member_id)
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            prepare_or_complete(decision, f"member {member_id} was not heard of in time")
        else:
            _complete_preparing(decision)
    return keep_when_refused(decision)


def _is_parked(decision: ClassicDecision, member_id: str) -> bool:
    """Whether a member cannot send heartbeats because its request is parked here.

    A new member that waits for its id does not count: only its session timeout removes it.
    """
    group = decision.group
    parked = member_id in group.awaiting_join or member_id in group.awaiting_sync
    return parked and member_id not in group.newcomers


def _complete_preparing(decision: ClassicDecision) -> None:
    """Complete a rebalance, also a first one, if it waited only for the member that left."""
    group = decision.group
    if group.state is ClassicState.PREPARING_REBALANCE and group.all_members_joined:
        complete(decision)
