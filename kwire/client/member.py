"""A member of a consumer group by the classic protocol: join, sync, heartbeat, commit, leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.connection import Connection
from kwire.client.errors import BrokerRefused, BrokerUnreachable, ClientError, check
from kwire.client.groups import (
    BY_NAME_VERSION_MAX,
    check_per_partition,
    commit_request,
    fetch_offsets,
)
from kwire.client.subscription import (
    assign_ranges,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kwire.codecs.errors import ErrorCode
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
PROTOCOL_TYPE: Final = "consumer"
ASSIGNOR: Final = "range"
ROLE: Final = "member"
OUTDATED: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)
"""What a member is told whose generation is over."""


class GroupMember:
    """One membership.  The owner calls `heartbeat` often, and `join` when it returns false."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Iterable[str],
        *,
        instance_id: str | None = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
    ) -> None:
        self.group_id = group_id
        self.topics = sorted(set(topics))
        self.member_id = ""
        self.generation = -1
        self.assignment: list[TopicPartition] = []
        self._cluster = cluster
        self._instance_id = instance_id
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._heartbeat_due = 0.0

    def join(self) -> list[TopicPartition]:
        """Take part in a rebalance; returns the partitions that are this member's after it."""
        deadline = time.monotonic() + self._cluster.timeout_s
        while True:
            try:
                self.assignment = self._join_once()
            except ClientError as error:
                if not self._may_rejoin(error) or time.monotonic() > deadline:
                    raise
                self._cluster.tell_of_trouble(error)
                time.sleep(BACKOFF_S)
            else:
                self._heartbeat_due = time.monotonic() + self._heartbeat_interval_s
                return self.assignment

    def heartbeat(self) -> bool:
        """Tell the coordinator that this member lives, if it is time; false: `join` again."""
        if time.monotonic() < self._heartbeat_due:
            return True
        self._heartbeat_due = time.monotonic() + self._heartbeat_interval_s
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
        )
        try:
            check(self._ask(request).error_code, f"heartbeat in group {self.group_id}")
        except ClientError as error:
            if not self._may_rejoin(error):
                raise
            code = error.code if isinstance(error, BrokerRefused) else None
            return code not in OUTDATED
        return True

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets to go on from, where the group has committed any."""
        partitions = list(partitions)
        if not partitions:
            return {}
        found = fetch_offsets(self._cluster, self.group_id, partitions)
        return {partition: committed.offset for partition, committed in found.items()}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of the records to be read next.

        Raises BrokerRefused with one of OUTDATED where the partitions may be another's by now.
        """
        if not offsets:
            return
        request = commit_request(self.group_id, offsets)
        request.member_id = self.member_id
        request.generation_id_or_member_epoch = self.generation
        request.group_instance_id = self._instance_id

        def ask() -> None:
            reply = self._ask(request, version_max=BY_NAME_VERSION_MAX)
            check_per_partition(reply.topics, f"commit in group {self.group_id} of")

        self._retrying(ask)

    def leave(self) -> None:
        """Leave at once, so that the others need not wait for the session to time out.

        A static member stays (KIP-345): it comes back under its instance id.
        """
        if not self.member_id or self._instance_id is not None:
            return
        request = LeaveGroupRequest(group_id=self.group_id)
        connection = self._cluster.coordinator(self.group_id, ROLE)
        if connection.version_for(request) < 3:  # KIP-345: from 3 on, many members at a time
            request.member_id = self.member_id
        else:
            request.members = [MemberIdentity(member_id=self.member_id, reason="closed")]
        self._ask(request)
        self.member_id = ""

    def _join_once(self) -> list[TopicPartition]:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=ASSIGNOR, metadata=write_subscription(self.topics))
            ],
        )
        patience_s = REBALANCE_TIMEOUT_MS / 1000 + self._cluster.timeout_s
        joined: JoinGroupResponse = self._ask(request, timeout_s=patience_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            request.member_id = self.member_id = joined.member_id
            joined = self._ask(request, timeout_s=patience_s)
        check(joined.error_code, f"join group {self.group_id}")
        self.member_id = joined.member_id
        self.generation = joined.generation_id
        return self._sync(joined)

    def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=ASSIGNOR,
            assignments=self._assign(joined) if leads else [],
        )
        reply = self._ask(request, timeout_s=REBALANCE_TIMEOUT_MS / 1000)
        check(reply.error_code, f"sync with group {self.group_id}")
        return read_assignment(bytes(reply.assignment))

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        wishes = {m.member_id: read_subscription(bytes(m.metadata)) for m in joined.members}
        topics = sorted({topic for wished in wishes.values() for topic in wished})
        counts = {
            topic.name: len(topic.partitions)
            for topic in self._cluster.refresh(topics).topics
            if topic.name is not None and not topic.error_code
        }
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(assigned))
            for member, assigned in assign_ranges(wishes, counts).items()
        ]

    def _ask(
        self,
        request: Any,  # noqa: ANN401 - any request of the group protocol
        *,
        timeout_s: float | None = None,
        version_max: int | None = None,
    ) -> Any:  # noqa: ANN401 - the reply belongs to the request
        connection: Connection = self._cluster.coordinator(self.group_id, ROLE)
        return connection.call(request, timeout_s=timeout_s, version_max=version_max)

    def _may_rejoin(self, error: ClientError) -> bool:
        """Whether joining (again) can mend it; forgets what the error says is outdated."""
        code = error.code if isinstance(error, BrokerRefused) else None
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code not in OUTDATED:
            self._cluster.forget_coordinator(self.group_id)
        return error.retriable or code in OUTDATED

    def _retrying(self, ask: Callable[[], None]) -> None:
        def attempt() -> None:
            try:
                ask()
            except (BrokerRefused, BrokerUnreachable):
                self._cluster.forget_coordinator(self.group_id)
                raise

        self._cluster.retrying(attempt)
