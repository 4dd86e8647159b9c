"""How a classic group gets from one generation to the next.

prepare      members are asked to rejoin (heartbeats answer REBALANCE_IN_PROGRESS) and are parked
complete     all joined, or the rebalance timeout passed: the next generation begins, its members
             are told, and must sync within another rebalance timeout
first        a group without members waits `group.initial.rebalance.delay.ms` for more to come,
             again as long as some came, at most the rebalance timeout
"""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.groups.classic.decision import Decision, join_error, sync_error
from kwire.groups.classic.state import ClassicState
from kwire.groups.classic.timers import InitialJoinTimer, JoinTimer, SyncTimer
from kwire.groups.effects import Effects


def prepare_or_complete(decision: Decision, reason: str) -> None:
    """Something about the members changed: start a rebalance, or finish the one under way."""
    if decision.group.can_rebalance:
        prepare(decision, reason)
    else:
        complete_if_all_joined(decision)


def prepare(decision: Decision, reason: str) -> None:
    """Start a rebalance."""
    group = decision.group
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


def complete_if_all_joined(decision: Decision) -> None:
    """Finish the rebalance under way, but a first one only by its timer."""
    group = decision.group
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and not group.in_first_rebalance
        and group.all_members_joined
    ):
        complete(decision)


def complete(decision: Decision) -> None:
    """Begin the next generation with those who joined; static members may be late."""
    group = decision.group
    decision.cancel_timer(JoinTimer(group.group_id).key)
    for member in list(group.members.values()):
        if member.member_id not in group.awaiting_join and not member.is_static:
            decision.note(f"member {member.member_id} did not rejoin in time and is out")
            group.remove(member.member_id)
            decision.end_session(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Static members only, all of them away: wait on until one comes or their sessions end.
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


def fail_syncs(decision: Decision, error: ErrorCode) -> None:
    """Take back what was assigned and release the parked SyncGroups with an error."""
    group = decision.group
    for member_id, member in list(group.members.items()):
        group.members[member_id] = replace(member, assignment=b"")
        if decision.answer_sync(member_id, sync_error(error)):
            decision.expect_heartbeat(member)


def assign(decision: Decision, assignments: dict[str, bytes]) -> None:
    """The leader's assignment is in the log: the group is stable and its members are told."""
    group = decision.group
    for member_id, member in list(group.members.items()):
        group.members[member_id] = replace(member, assignment=assignments.get(member_id, b""))
        if decision.answer_sync(member_id, decision.assignment(member_id)):
            # Nobody is expected to be heard of while parked, so the session starts here.
            decision.expect_heartbeat(member)
    group.transition_to(ClassicState.STABLE, decision.now_ms)


def remove_member(decision: Decision, member_id: str) -> None:
    """Take a member out.  A parked join is told UNKNOWN_MEMBER_ID: who still waits comes again."""
    decision.answer_join(member_id, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
    decision.answer_sync(member_id, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    decision.group.remove(member_id)


def keep_when_refused(decision: Decision) -> Effects:
    """The decision stands even if its record cannot be written.

    For the record of a group that has become empty: were it lost, the last generation would come
    back with the next load and its members time out.
    """
    effects = decision.effects
    if effects.records:
        effects.refused = lambda _: replace(effects, records=[])
    return effects


# -- timers


def initial_join_due(decision: Decision, timer: InitialJoinTimer) -> Effects:
    group = decision.group
    if group.new_member_added and timer.remaining_ms != 0:
        group.new_member_added = False
        delay_ms = min(decision.limits.group_initial_rebalance_delay_ms, timer.remaining_ms)
        remaining_ms = max(timer.remaining_ms - timer.delay_ms, 0)
        decision.set_timer(InitialJoinTimer(group.group_id, delay_ms, remaining_ms), delay_ms)
        return decision.effects
    return join_due(decision)


def join_due(decision: Decision) -> Effects:
    if decision.group.state is ClassicState.PREPARING_REBALANCE:
        complete(decision)
    return keep_when_refused(decision)


def sync_due(decision: Decision, timer: SyncTimer) -> Effects:
    """Members that did not sync in time are out, and the others start over without them."""
    group = decision.group
    syncing = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if timer.generation_id == group.generation_id and syncing and group.pending_syncs:
        for member_id in list(group.pending_syncs):
            remove_member(decision, member_id)
            decision.end_session(member_id)
        prepare(decision, "members did not sync in time")
    return keep_when_refused(decision)


def session_due(decision: Decision, member_id: str) -> Effects:
    """A member, or an id that was given out, was not heard of in time."""
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


def _is_parked(decision: Decision, member_id: str) -> bool:
    """Whether a member cannot send heartbeats because it waits for us.

    One that waits to learn its id does not count: nobody else would ever take it out.
    """
    group = decision.group
    parked = member_id in group.awaiting_join or member_id in group.awaiting_sync
    return parked and member_id not in group.newcomers


def _complete_preparing(decision: Decision) -> None:
    """Finish the rebalance, a first one too, if the one who left was the last to be waited for."""
    group = decision.group
    if group.state is ClassicState.PREPARING_REBALANCE and group.all_members_joined:
        complete(decision)
