"""The interface between a consumer and its membership in a group, for both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerRefused, BrokerUnreachable
from kwire.client.groups import (
    BY_NAME_VERSION_MAX,
    check_per_partition,
    commit_request,
    fetch_offsets,
)
from kwire.codecs.errors import ErrorCode

ROLE: Final = "member"

OUTDATED: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
)
"""Errors after which a member has to join again, because its generation or epoch is over."""


class Membership(Protocol):
    """A membership.  The owner calls `join` first, and again when `heartbeat` returns False.

    `heartbeat` has to be called often.
    """

    assignment: list[TopicPartition]

    def join(self) -> list[TopicPartition]:
        """Join or rejoin the group.  Returns the new assignment; the member gives up all others."""

    def heartbeat(self) -> bool:
        """Send a heartbeat if one is due.  Returns False if the member has to `join` again."""

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets of these partitions; those without one are left out."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of the records to be read next.

        Raises BrokerRefused with one of OUTDATED if another member may have the partitions now.
        """

    def leave(self) -> None:
        """Leave the group, so that other members need not wait for the session timeout."""


class GroupMembership:
    """What both protocols share: the coordinator, and the group's offsets."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
        """`topics` are the names to which the member subscribes.  Nothing is sent until the member
        joins."""
        self.group_id = group_id
        self.topics = sorted(set(topics))
        self.member_id = ""
        self.generation = -1
        """The generation, or the member epoch of the consumer protocol."""
        self.assignment: list[TopicPartition] = []
        self._cluster = cluster
        self._instance_id: str | None = None

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See Membership."""
        partitions = list(partitions)
        if not partitions:
            return {}
        offsets = fetch_offsets(self._cluster, self.group_id, partitions)
        return {partition: committed.offset for partition, committed in offsets.items()}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See Membership."""
        if not offsets:
            return
        request = commit_request(self.group_id, offsets)
        request.member_id = self.member_id
        request.generation_id_or_member_epoch = self.generation
        request.group_instance_id = self._instance_id

        def ask() -> None:
            reply = self._call(request, version_max=BY_NAME_VERSION_MAX)
            check_per_partition(reply.topics, f"commit in group {self.group_id} of")

        self._retrying(ask)

    def _call(
        self,
        request: Any,  # noqa: ANN401 - any request of the group protocol
        *,
        timeout_s: float | None = None,
        version_max: int | None = None,
    ) -> Any:  # noqa: ANN401 - the response belongs to the request
        """The coordinator's response to a request."""
        connection: BrokerConnection = self._cluster.coordinator(self.group_id, ROLE)
        return connection.call(request, timeout_s=timeout_s, version_max=version_max)

    def _retrying(self, ask: Callable[[], None]) -> None:
        """Call `ask` again after retriable errors, with the coordinator looked up again."""

        def attempt() -> None:
            """Calls `ask` once.  After an error the coordinator is looked up again, since it may
            have moved."""
            try:
                ask()
            except (BrokerRefused, BrokerUnreachable):
                self._cluster.forget_coordinator(self.group_id)
                raise

        self._cluster.retrying(attempt)
