"""A decision about one classic group, while it is made."""

from __future__ import annotations

from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kwire.codecs.messages.sync_group import SyncGroupResponse
from kwire.groups.classic.group import ClassicGroup, ClassicMember
from kwire.groups.decision import GroupDecision
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.limits import GroupLimits


class ClassicCaller(NamedTuple):
    """The client that sends a request."""

    client_id: str
    client_host: str
    """As DescribeGroups shows it, with Java's leading slash."""
    api_version: int


class ClassicDecision(GroupDecision):
    """A fork of the group, which the decision changes, and the effects that install the fork."""

    __slots__ = ("group",)

    def __init__(self, group: ClassicGroup, limits: GroupLimits, now_ms: int) -> None:
        self.group = group.fork()
        super().__init__(group.group_id, limits, now_ms, GroupEffects(soft=self.group))

    # -- sessions

    def expect_heartbeat(self, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Restart the member's session; the member is removed if it sends nothing in that time."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        self.begin_session(member.member_id, timeout_ms)

    # -- parked requests

    def park_join(self, member_id: str, ticket: Ticket) -> None:
        """Park a JoinGroup until the next generation begins.

        A second join of a member means that it gave up the first, usually because its connection
        was lost.  The first one is answered with REBALANCE_IN_PROGRESS.
        """
        self.answer_join(member_id, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
        self.group.awaiting_join[member_id] = ticket

    def park_sync(self, member_id: str, ticket: Ticket) -> None:
        """Park a SyncGroup until the leader's assignment arrives; a second one as in park_join."""
        self.answer_sync(member_id, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        self.group.awaiting_sync[member_id] = ticket

    def answer_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """Answer the member's parked JoinGroup, if it has one."""
        ticket = self.group.awaiting_join.pop(member_id, None)
        if ticket is not None:
            self.reply(ticket, response)

    def answer_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Answer the member's parked SyncGroup.  Returns False if it has none."""
        ticket = self.group.awaiting_sync.pop(member_id, None)
        if ticket is None:
            return False
        self.reply(ticket, response)
        return True

    def generation(self, member_id: str) -> JoinGroupResponse:
        """The JoinGroup response for the current generation; only the leader gets the members."""
        group = self.group
        assert group.leader_id is not None, "a group with members has a leader"
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id,
            member_id=member_id,
            members=self.members() if member_id == group.leader_id else [],
        )

    def members(self) -> list[JoinGroupResponseMember]:
        """Return the members as the leader gets them in the JoinGroup response."""
        group = self.group
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]

    def assignment(self, member_id: str) -> SyncGroupResponse:
        """Return the SyncGroup response that gives a member its assignment."""
        group = self.group
        return SyncGroupResponse(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=group.members[member_id].assignment,
        )


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
