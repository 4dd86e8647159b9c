"""A decision about one classic group while it is being made."""

from __future__ import annotations

from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kwire.codecs.messages.sync_group import SyncGroupResponse
from kwire.groups.classic.group import ClassicGroup, Member
from kwire.groups.decision import GroupDecision
from kwire.groups.effects import Effects, Ticket
from kwire.groups.limits import GroupLimits


class Caller(NamedTuple):
    """Who sends a request, as far as a group must know."""

    client_id: str
    client_host: str
    """As DescribeGroups prints it, with Java's leading slash."""
    api_version: int


class Decision(GroupDecision):
    """The group as it would be, and what would follow; `effects` hands both over."""

    __slots__ = ("group",)

    def __init__(self, group: ClassicGroup, limits: GroupLimits, now_ms: int) -> None:
        self.group = group.fork()
        super().__init__(group.group_id, limits, now_ms, Effects(soft=self.group))

    # -- sessions

    def expect_heartbeat(self, member: Member, timeout_ms: int | None = None) -> None:
        """Start the member's session over; it is removed unless it is heard of in time."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        self.begin_session(member.member_id, timeout_ms)

    # -- parked requests

    def park_join(self, member_id: str, ticket: Ticket) -> None:
        """The reply waits for the generation.

        A second join of a member means that it gave up the first, usually with its connection;
        whoever still reads there is told to try again.
        """
        self.answer_join(member_id, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
        self.group.awaiting_join[member_id] = ticket

    def park_sync(self, member_id: str, ticket: Ticket) -> None:
        """The reply waits for the leader's assignment; a second sync is as a second join."""
        self.answer_sync(member_id, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        self.group.awaiting_sync[member_id] = ticket

    def answer_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """Release the member's parked JoinGroup, if it has one."""
        ticket = self.group.awaiting_join.pop(member_id, None)
        if ticket is not None:
            self.reply(ticket, response)

    def answer_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Release the member's parked SyncGroup; False if it has none."""
        ticket = self.group.awaiting_sync.pop(member_id, None)
        if ticket is None:
            return False
        self.reply(ticket, response)
        return True

    def generation(self, member_id: str) -> JoinGroupResponse:
        """What a member is told of the generation it is in; only the leader gets the members."""
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
