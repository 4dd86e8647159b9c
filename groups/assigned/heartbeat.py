"""A heartbeat of a member that does not leave: identifies the member, and checks its epoch.

A heartbeat with epoch 0 joins the group.  Any other must have the member's epoch, or the previous
epoch if the last response was lost.  What the heartbeat then changes is up to the kind of groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.groups.assigned.decision import AssignedDecision
from kwire.groups.assigned.group import AssignedGroup, M
from kwire.groups.assigned.member import JOIN_EPOCH

REJOIN = "The member must abandon all its partitions and rejoin."


class HeartbeatCaller(NamedTuple):
    """The client that sends a heartbeat."""

    client_id: str
    client_host: str
    """As descriptions of groups show it, with Java's leading slash."""
    may_describe: Callable[[str], bool] | None = None
    """Whether a pattern of this client may match a topic; None if it may match all."""
    api_version: int = 0
    """Of the heartbeat: it decides which statuses the client knows."""


class HeartbeatRequest(Protocol):
    """The fields that the heartbeats of all kinds have."""

    group_id: str
    member_id: str
    member_epoch: int


D = TypeVar("D", bound=AssignedDecision[Any, Any, Any])
Q = TypeVar("Q", bound=HeartbeatRequest)


class AssignedHeartbeat(ABC, Generic[D, Q, M]):
    """The decision about one heartbeat of a member that does not leave."""

    def __init__(self, decision: D, request: Q, caller: HeartbeatCaller) -> None:
        self.decision = decision
        self.group = decision.group
        self.request = request
        self.caller = caller

    @abstractmethod
    def decide(self) -> object:
        """Return the reply, and collect all other effects in the decision.  Raises Refusal."""

    def check_room(self, size_max: int, member_id: str | None) -> None:
        """Raise Refusal if the group is full, except for the member with this id."""
        members = self.group.members
        if len(members) >= size_max and member_id not in members:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.group.type_name} group has reached its maximum capacity of {size_max} "
                "members.",
            )

    def find_or_create(self) -> M:
        """The member that sends the heartbeat, as it was before.  Raises Refusal."""
        member_id = self.request.member_id
        member: M | None = self.group.members.get(member_id)
        if member is not None:
            self.check_epoch(member)
            return member
        if self.request.member_epoch != JOIN_EPOCH:
            raise unknown_member(self.group, member_id)
        self.decision.note(f"member {member_id} joins")
        new: M = self.group.member_class(member_id)
        return new

    def check_epoch(self, member: M) -> None:
        """Raise Refusal if the request's epoch is not the member's."""
        received, epoch = self.request.member_epoch, member.epoch
        if received in (JOIN_EPOCH, epoch):
            return
        if received < epoch and received == member.previous_epoch and self.owns_no_more(member):
            return  # the response with the new epoch was lost
        known = f"({received}) than the one known by the group coordinator ({epoch})"
        if received > epoch:
            what = f"greater member epoch {known}"
        else:
            what = f"smaller member epoch {known}{self.about_smaller_epoch(member)}"
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.group.type_name} group member has a {what}. {REJOIN}",
        )

    def owns_no_more(self, member: M) -> bool:
        """Whether the request proves that the member owns only what is assigned to it."""
        return True

    def about_smaller_epoch(self, member: M) -> str:
        """Return what to add to the error message about an epoch below the member's."""
        return ""


def unknown_member(group: AssignedGroup[Any, Any], member_id: str) -> Refusal:
    """Return the refusal of a request whose member id is not in the group."""
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )
