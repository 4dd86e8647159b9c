"""A member of a group that uses the classic protocol: join, sync, heartbeat and leave.

The protocol carries bytes of any kind: `ClassicMembership` is what all kinds of members have in
common, `GroupMember` is a consumer.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.errors import BrokerRefused, ClientError, check
from kwire.client.membership.membership import OUTDATED, ROLE, GroupMembership
from kwire.client.membership.subscription import (
    assign_ranges,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
REBALANCE_TIMEOUT_MS: Final = 300_000
"""Kafka's defaults of session.timeout.ms, heartbeat.interval.ms and max.poll.interval.ms."""
ASSIGNOR: Final = "range"


class ClassicMembership(GroupMembership, ABC):
    """A member of a group of any protocol type."""

    PROTOCOL_TYPE: ClassVar[str]
    """What the members are: `consumer` for those that read topics."""
    PROTOCOL: ClassVar[str]
    """The name of the way in which the group's leader assigns."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Iterable[str] = (),
        *,
        instance_id: str | None = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> None:
        """`instance_id` makes the member static (KIP-345).  Nothing is sent until the member
        joins."""
        super().__init__(cluster, group_id, topics)
        self.confirmed_at = float("-inf")
        """When the last request was sent by which the coordinator confirmed the membership, on the
        clock of `time.monotonic`."""
        self._instance_id = instance_id
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_due = 0.0

    @abstractmethod
    def metadata(self) -> bytes:
        """What this member tells the group's leader."""

    @abstractmethod
    def assignments(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """The assignment of each member, as the group's leader decides; `members` are the metadata
        by member id."""

    def join_group(self) -> bytes:
        """Take part in a rebalance.  Returns what the leader assigned to this member."""
        deadline = time.monotonic() + self._cluster.timeout_s
        while True:
            try:
                assigned = self._join_once()
            except ClientError as error:
                if not self._may_rejoin(error) or time.monotonic() > deadline:
                    raise
                self._cluster.tell_of_trouble(error)
                time.sleep(BACKOFF_S)
            else:
                self._heartbeat_due = time.monotonic() + self._heartbeat_interval_s
                return assigned

    def heartbeat(self) -> bool:
        """Send a heartbeat if one is due.  Returns False if the member has to `join` again."""
        sent_at = time.monotonic()
        if sent_at < self._heartbeat_due:
            return True
        self._heartbeat_due = sent_at + self._heartbeat_interval_s
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
        )
        try:
            check(self._call(request).error_code, f"heartbeat in group {self.group_id}")
        except ClientError as error:
            if not self._may_rejoin(error):
                raise
            code = error.code if isinstance(error, BrokerRefused) else None
            return code not in OUTDATED
        self.confirmed_at = sent_at
        return True

    def leave(self) -> None:
        """Leave the group, so that other members need not wait for the session timeout.

        A static member does not leave (KIP-345): it returns with its instance id.
        """
        if not self.member_id or self._instance_id is not None:
            return
        self.remove(self.member_id, "closed")
        self.member_id = ""

    def remove(self, member_id: str, reason: str) -> None:
        """Remove a member from the group; nothing happens if it is none.  The broker logs the
        reason (KIP-800)."""
        request = LeaveGroupRequest(group_id=self.group_id)
        connection = self._cluster.coordinator(self.group_id, ROLE)
        if (
            connection.version_for(request) < 3
        ):  # KIP-345: version 3 and later have a list of members
            request.member_id = member_id
        else:
            request.members = [MemberIdentity(member_id=member_id, reason=reason)]
        self._call(request)

    def present_members(self) -> dict[str, bytes]:
        """The metadata of the group's members by member id.

        It is empty while the group rebalances: a coordinator describes the metadata of stable
        groups alone.
        """
        found: dict[str, bytes] = {}

        def ask() -> None:
            request = DescribeGroupsRequest(groups=[self.group_id])
            group = self._call(request).groups[0]
            if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                check(group.error_code, f"describe group {self.group_id}", group.error_message)
            if group.protocol_type == self.PROTOCOL_TYPE:
                found.update(
                    (member.member_id, bytes(member.member_metadata))
                    for member in group.members
                    if member.member_metadata
                )

        self._retrying(ask)
        return found

    def _join_once(self) -> bytes:
        """Joins the group once and returns what is assigned to this member.  The coordinator
        answers only when all members have joined, hence the long timeout."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=self.PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.PROTOCOL, metadata=self.metadata())],
        )
        patience_s = self._rebalance_timeout_ms / 1000 + self._cluster.timeout_s
        joined: JoinGroupResponse = self._call(request, timeout_s=patience_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            request.member_id = self.member_id = joined.member_id
            joined = self._call(request, timeout_s=patience_s)
        check(joined.error_code, f"join group {self.group_id}")
        self.member_id = joined.member_id
        self.generation = joined.generation_id
        return self._sync(joined)

    def _sync(self, joined: JoinGroupResponse) -> bytes:
        """Sends SyncGroup and returns this member's assignment.  Only the leader of the group sends
        assignments; `skip_assignment` (KIP-814) tells a leader not to compute them."""
        is_leader = joined.leader == joined.member_id and not joined.skip_assignment
        members = {member.member_id: bytes(member.metadata) for member in joined.members}
        assignments = self.assignments(members) if is_leader else {}
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=self.PROTOCOL_TYPE,
            protocol_name=self.PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assigned)
                for member, assigned in assignments.items()
            ],
        )
        sent_at = time.monotonic()
        reply = self._call(request, timeout_s=self._rebalance_timeout_ms / 1000)
        check(reply.error_code, f"sync with group {self.group_id}")
        self.confirmed_at = sent_at
        return bytes(reply.assignment)

    def _may_rejoin(self, error: ClientError) -> bool:
        """Whether joining again may succeed after this error.

        Forgets the member id or the coordinator if the error shows that it is outdated.
        """
        code = error.code if isinstance(error, BrokerRefused) else None
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code not in OUTDATED:
            self._cluster.forget_coordinator(self.group_id)
        return error.retriable or code in OUTDATED


class GroupMember(ClassicMembership):
    """A consumer's membership by the classic protocol; see Membership."""

    PROTOCOL_TYPE = "consumer"
    PROTOCOL = ASSIGNOR

    def join(self) -> list[TopicPartition]:
        """Take part in a rebalance.  Returns this member's new assignment."""
        self.assignment = read_assignment(self.join_group())
        return self.assignment

    def metadata(self) -> bytes:
        """See ClassicMembership."""
        return write_subscription(self.topics)

    def assignments(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """See ClassicMembership."""
        subscribed = {member: read_subscription(data) for member, data in members.items()}
        topics = sorted({topic for topics in subscribed.values() for topic in topics})
        counts = {
            topic.name: len(topic.partitions)
            for topic in self._cluster.refresh(topics).topics
            if topic.name is not None and not topic.error_code
        }
        return {
            member: write_assignment(assigned)
            for member, assigned in assign_ranges(subscribed, counts).items()
        }
