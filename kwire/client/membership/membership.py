"""What a consumer asks of its membership in a group, whichever protocol that speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import Connection
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
"""What a member is told whose generation is over."""


class Membership(Protocol):
    """The owner calls `heartbeat` often, and `join` at first and when that returns false."""

    assignment: list[TopicPartition]

    def join(self) -> list[TopicPartition]:
        """The partitions that are this member's now; those that are not among them it gives up."""

    def heartbeat(self) -> bool:
        """Tell the coordinator that this member lives, if it is time; false: `join` again."""

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets to go on from, where the group has committed any."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of the records to be read next.

        Raises BrokerRefused with one of OUTDATED where the partitions may be another's by now.
        """

    def leave(self) -> None:
        """Leave at once, so that the others need not wait for the session to time out."""


class OfGroup:
    """What both protocols have in common: the coordinator, and the group's offsets."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
        self.group_id = group_id
        self.topics = sorted(set(topics))
        self.member_id = ""
        self.generation = -1
        """Or the member epoch."""
        self.assignment: list[TopicPartition] = []
        self._cluster = cluster
        self._instance_id: str | None = None

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See Membership."""
        partitions = list(partitions)
        if not partitions:
            return {}
        found = fetch_offsets(self._cluster, self.group_id, partitions)
        return {partition: committed.offset for partition, committed in found.items()}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See Membership."""
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

    def _ask(
        self,
        request: Any,  # noqa: ANN401 - any request of the group protocol
        *,
        timeout_s: float | None = None,
        version_max: int | None = None,
    ) -> Any:  # noqa: ANN401 - the reply belongs to the request
        connection: Connection = self._cluster.coordinator(self.group_id, ROLE)
        return connection.call(request, timeout_s=timeout_s, version_max=version_max)

    def _retrying(self, ask: Callable[[], None]) -> None:
        def attempt() -> None:
            try:
                ask()
            except (BrokerRefused, BrokerUnreachable):
                self._cluster.forget_coordinator(self.group_id)
                raise

        self._cluster.retrying(attempt)
