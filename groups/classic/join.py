"""JoinGroup for classic groups: which members may join, and whether that starts a rebalance."""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.codecs.messages.sync_group import SyncGroupResponse
from kwire.groups.classic.decision import ClassicCaller, ClassicDecision, join_error
from kwire.groups.classic.group import ClassicGroup, ClassicMember, Protocols
from kwire.groups.classic.rebalance import complete_if_all_joined, prepare, prepare_or_complete
from kwire.groups.classic.state import ClassicState
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupLimits

MEMBER_ID_REQUIRED_SINCE = 4
"""KIP-394: a member without an id gets one, and must join again with it."""
SKIP_ASSIGNMENT_SINCE = 9
"""KIP-814: a static leader that came back gets the members, but must not assign."""


def invalid(request: JoinGroupRequest, limits: GroupLimits) -> JoinGroupResponse | None:
    """The error response of a request that is invalid for every group, else None."""
    shortest_ms = limits.group_min_session_timeout_ms
    longest_ms = limits.group_max_session_timeout_ms
    if not request.group_id:
        return join_error(ErrorCode.INVALID_GROUP_ID, request.member_id)
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    return None


class ClassicJoin:
    """The decision about one JoinGroup request."""

    def __init__(
        self,
        decision: ClassicDecision,
        request: JoinGroupRequest,
        caller: ClassicCaller,
        ticket: Ticket,
        new_member_id: str,
    ) -> None:
        """Prepare the decision; `new_member_id` is used if the member gets an id."""
        self.decision = decision
        self.group: ClassicGroup = decision.group
        self.request = request
        self.caller = caller
        self.ticket = ticket
        self.new_member_id = new_member_id
        self.protocols: Protocols = tuple((p.name, p.metadata) for p in request.protocols)

    def decide(self) -> GroupEffects:
        """The effects of the join.  The reply comes at once or, if parked, with the generation."""
        request, group = self.request, self.group
        if not self._has_room():
            group.remove(request.member_id)
            self.decision.end_session(request.member_id)
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif group.state is ClassicState.DEAD:
            self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        elif not group.supports(request.protocol_type, self.protocols):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id:
            self._join_with_id()
        elif request.group_instance_id is not None:
            self._join_static()
        elif self.caller.api_version >= MEMBER_ID_REQUIRED_SINCE:
            self._give_id()
        else:
            self._add(self.new_member_id)
        return self.decision.effects

    def _has_room(self) -> bool:
        """Whether `group.max.size` allows the member.

        In a rebalance the members that rejoin first are accepted, and those over the limit are not.
        """
        group, size_max = self.group, self.decision.limits.group_max_size
        member_id = self.request.member_id
        if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            return member_id in group.awaiting_join or len(group.awaiting_join) < size_max
        return member_id in group.members or len(group.members) < size_max

    def _refuse(self, error: ErrorCode, member_id: str) -> None:
        self.decision.reply(self.ticket, join_error(error, member_id))

    def _reply_generation(self) -> None:
        self.decision.reply(self.ticket, self.decision.generation(self.request.member_id))

    # -- without an id

    def _give_id(self) -> None:
        """Answer a new dynamic member with the id with which it must join again (KIP-394)."""
        decision, member_id = self.decision, self.new_member_id
        self.group.pending_joins[member_id] = None
        decision.expect_heartbeat(self._member(member_id))
        decision.reply(self.ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _join_static(self) -> None:
        """Let a static member join without a member id.

        If another member has its instance id, the new one replaces it.
        """
        assert self.request.group_instance_id is not None
        holder = self.group.static_members.get(self.request.group_instance_id)
        if holder is None:
            self._add(self.new_member_id)
        else:
            self._replace(holder)

    # -- with an id

    def _join_with_id(self) -> None:
        """Let a member with an id join or rejoin, or answer with the error.

        A rejoin that changes nothing gets the present generation at once.
        """
        request, group = self.request, self.group
        member_id = request.member_id
        if member_id in group.pending_joins:
            if request.group_instance_id is None:
                self._add(member_id)
            else:  # only dynamic members get a pending id
                self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return
        error = group.check_member(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            self._refuse(error, member_id)
            return
        unchanged = group.members[member_id].protocols == self.protocols
        in_generation = group.state is ClassicState.COMPLETING_REBALANCE or (
            # A rejoin of the leader means a change that its own metadata may not show.
            group.state is ClassicState.STABLE and member_id != group.leader_id
        )
        if unchanged and in_generation:
            self._reply_generation()
        else:
            self._update(group.members[member_id])
            prepare_or_complete(self.decision, self._reason(f"member {member_id} rejoins"))

    # -- changes of the group

    def _member(self, member_id: str) -> ClassicMember:
        """Return the member that the request describes."""
        request = self.request
        return ClassicMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=self.protocols,
        )

    def _reason(self, what: str) -> str:
        """A note with the client's reason for joining, if it sent one (KIP-800)."""
        return f"{what} ({self.request.reason})" if self.request.reason else what

    def _add(self, member_id: str) -> None:
        """Add a new member, park its JoinGroup, and rebalance the group."""
        decision, group = self.decision, self.group
        member = self._member(member_id)
        if group.in_first_rebalance:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = self.request.protocol_type
        group.add(member)
        group.newcomers.add(member_id)
        decision.park_join(member_id, self.ticket)
        decision.expect_heartbeat(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        prepare_or_complete(decision, self._reason(f"member {member_id} joins"))

    def _update(self, member: ClassicMember) -> None:
        """Store the request's protocols and timeouts in the member, and park its join."""
        request = self.request
        updated = replace(
            member,
            protocols=self.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        self.group.update(updated)
        self.decision.park_join(member.member_id, self.ticket)

    def _replace(self, old_member_id: str) -> None:
        """A static member came back without its id: give it a new one, and fence the old one."""
        decision, group = self.decision, self.group
        leader_id = group.leader_id
        assert leader_id is not None, "a group with members has a leader"
        fenced = join_error(ErrorCode.FENCED_INSTANCE_ID, old_member_id)
        decision.answer_join(old_member_id, fenced)
        decision.answer_sync(
            old_member_id, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)
        )
        decision.end_session(old_member_id)
        decision.note(f"static member {old_member_id} comes back as {self.new_member_id}")
        member = group.rename(old_member_id, self.new_member_id)
        decision.expect_heartbeat(member)
        self._update(member)
        if group.state is ClassicState.STABLE:
            if group.select_protocol() == group.protocol_name:
                self._return_to_generation(leader_id)
            else:
                prepare_or_complete(decision, self._reason("a static member changed its protocol"))
        elif group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may have received the old id already and would assign partitions to it.
            prepare(decision, self._reason("a static member came back"))
        else:
            complete_if_all_joined(decision)

    def _return_to_generation(self, old_leader_id: str) -> None:
        """Keep the generation: only the member id changes.  The reply waits for the record."""
        decision, group, member_id = self.decision, self.group, self.new_member_id
        response = decision.generation(member_id)
        if self.caller.api_version >= SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = member_id == group.leader_id
        else:
            # A client without SkipAssignment would assign if it saw that it is the leader.
            response.leader = old_leader_id
            response.members = []
        decision.answer_join(member_id, response)
        decision.effects.records.append(
            group.to_record({m.member_id: m.assignment for m in group.members.values()})
        )
        decision.effects.refused = lambda error: GroupEffects.reply(
            self.ticket,
            replace(
                response,
                error_code=error,
                member_id="",
                leader=old_leader_id,
                members=[],
                skip_assignment=False,
            ),
        )
